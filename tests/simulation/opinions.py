"""Opinions of the simulated learner on a text by itself: the topic of a piece of news, the sentiment of a sentence.

It has two families of labels that it knows, and for each a list of words that speak for one, written down from general
knowledge and not counted in any data; that of sentiments was lengthened once, since the learner was wrong too often. It
still is wrong often, and of a text without a word of its list it has no opinion but the first topic, or neutral.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

UNCLEAR = 0.5
"""Doubt that each word more for the first label than for the next leaves."""
NEGATED = 3
"""Words whose sentiment a negation before them turns round."""
MEMORY = 2**14
"""Texts whose opinion is kept: the same ones are asked about many sequences."""

_TOPICS = {
    "World": """afghan afghanistan ambassador army arrested attack attacks baghdad blast bomb bombing bush cabinet
        ceasefire china civilians coup crisis darfur death diplomat diplomatic election elections embassy eu european
        foreign france gaza government hamas hostage hostages india iran iraq iraqi islamic israel israeli jerusalem
        kerry killed killing korea kosovo lebanon leader leaders militants military minister ministers najaf nato
        nuclear pakistan palestinian palestinians parliament peace police political president prime prisoners protest
        putin rebels refugees russia russian saudi security senate soldiers sudan suicide talks taliban terror
        terrorism terrorist treaty troops turkey ukraine un united vatican violence vote voters war yasser""",
    "Sports": """athens baseball basketball bat batsman bowl bowler boxing boston captain celtics champion champions
        championship clash club coach cricket cup defeat defeated defensive double draw draft fans federer final finals
        football formula game games giants goal goals gold golf grand hockey inning innings injury knicks lakers league
        manager match medal mets nba ncaa nfl nhl olympic olympics open pacers pitcher player players playoff playoffs
        prix quarterback race racing record red rookie rugby season score scored scoring serie shot sox spurs stadium
        striker super team teammate teams tennis test tiger tour tournament trophy victory wicket wickets win winner
        wins wimbledon won yankees""",
    "Business": """accounting acquire acquisition analysts auction bank bankruptcy banks barrel billion bond bonds
        buyout ceo companies consumer corp cost costs crude currency cut debt deficit demand dollar dow earnings
        economic economy energy euro exchange executives export factory fannie fed federal finance financial firm fund
        funds greenspan gm growth inc income industry inflation insurance investment investor investors job jobs lower
        manufacturing market markets merger mortgage nasdaq nyse offer oil opec pension percent price prices profit
        profits quarter quarterly rate rates retail retailer retailers revenue sales sector sell share shareholders
        shares sold spending stake stock stocks strike tax trade trading unemployment union wage wall workers""",
    "Sci/Tech": """amd apple astronauts astronomers biology blog broadband browser bug byte cell chip chips climate
        computer computers computing cyber data dell desktop digital dna download earth ebay electronics encryption
        engine fossil galaxy game gates genome google hacker hackers handheld hp hubble ibm intel internet ipod
        java laptop launch linux mac mars microsoft mobile moon music nasa network networks nintendo nokia online
        open-source oracle orbit patch pc pcs peer phishing phone phones planet playstation privacy processor
        programming research researchers robot satellite saturn science scientist scientists search security server
        servers site software solaris sony space spacecraft spam spyware study sun technology telescope users virus
        web website windows wireless worm xbox yahoo""",
}
_SENTIMENT = {
    2: """best brilliant compelling dazzling delightful enchanting engrossing excellent exhilarating extraordinary
        fantastic gorgeous gripping hilarious incredible joyous loved lovely luminous magnificent marvelous masterful
        masterpiece mesmerizing moving must-see outstanding perfect perfectly powerful remarkable riveting spectacular
        splendid stunning superb superbly terrific thrilling timeless transcendent triumph triumphant unforgettable
        wonderful wonderfully wondrous exceptional exquisite genius sublime profound vibrant breathtaking classic""",
    1: """amusing appealing attractive beautiful beautifully bright charm charming clever comic delicate delivers easy
        effective elegant engaging enjoy enjoyable entertaining enjoyed fascinating fine fresh fun funny gem gentle
        good great happy heart heartfelt honest humor imaginative impressive insight insightful inspired intelligent
        interesting intriguing laugh laughs likable lively love memorable nice original pleasant pleasure poignant
        rich satisfying sensitive sharp smart solid strong sweet tender thoughtful touching vivid warm warmth welcome
        witty worth worthwhile accomplished adventurous affecting believable better chilling clear
        comfort compassion compelled complex cool convincing creative daring deep deft dynamic elegiac emotional energy
        enjoyably enthusiasm epic exciting exotic experience faithful fluid freshness funniest gentler glorious grace
        greatest happiness haunting hope humane humanity humorous ideal ingenious innocence intense intimate
        invigorating joy laughing laughter lyrical magic mature meaningful memory mystery offbeat pretty quiet quirky
        refreshing romantic satisfies sensual serious sincere skill sly soulful spirit stylish subtle succeeds success
        suspense suspenseful talent talented timely true urgent vital well wild wise wonder young""",
    -1: """annoying bad bland boring cheap clichés contrived crude dark derivative disappointing disappointment dreary
        dry dull dumb empty fails failure fake flat flawed forced forgettable generic heavy-handed hard hollow lack
        lacking lacks lame lazy lifeless little loses mediocre mess messy minor missing muddled nothing obvious
        overlong painful plodding pointless poor predictable pretentious problem problems repetitive routine sad
        schmaltzy shallow silly slow sloppy stale stupid superficial tedious thin tired trite uneven unfortunately
        unfunny uninspired unsatisfying weak worse wrong absurd artificial awkward bizarre bore bored boredom
        clumsy cliché clichéd cold confused confusing conventional cynical dead despite drags dreck dud exploitive
        failed fails far-fetched feeble flimsy formula frustrating hackneyed half-baked hardly harsh ill impossible
        implausible inane inconsistent incomprehensible indulgent laughable loses losing 
        manipulative mawkish misfire mistake monotonous neither none nonsense nonsensical overblown
        overdone overwrought phony pity pompous poorly pointlessly preposterous pretension recycled
        remake rip-off ripoff rough sappy self-indulgent senseless sentimental shame simplistic skip sluggish sour
        stilted stereotypes strained struggle superficially suffers tasteless too unconvincing undeveloped uneasy
        unnecessary unpleasant unoriginal vapid weird yawn""",
    -2: """abysmal agonizing amateurish atrocious awful catastrophe crap crappy disaster disastrous dreadful execrable
        garbage hate hated hideous horrible horrendous idiotic incoherent inept insufferable insulting interminable
        ludicrous mindless miserable moronic nauseating pathetic repulsive ridiculous rotten terrible torture trash
        ugly unbearable unwatchable waste wasted worst worthless""",
}
_NEGATIONS = frozenset(("no", "not", "never", "n't", "neither", "nor", "without", "hardly"))
_DEGREES = ("very negative", "negative", "neutral", "positive", "very positive")
_WORD = re.compile(r"n't|[a-z](?:[\w-]*\w)?", re.IGNORECASE)

_TOPICS_OF: dict[str, list[str]] = {}
for _topic, _words in _TOPICS.items():
    for _word in _words.split():
        _TOPICS_OF.setdefault(_word, []).append(_topic)
_DEGREE_OF = {word: degree for degree, words in _SENTIMENT.items() for word in words.split()}


@dataclass(frozen=True)
class Opinion:
    """A label, and how clearly the text has it, in [0, 1]."""

    label: str
    clarity: float


@dataclass(frozen=True)
class Family:
    """Labels whose meaning the learner knows.

    Args:
        stubborn: how hard it is to persuade of another meaning: exponent of what clearly speaks for that.
    """

    labels: frozenset[str]
    opinion: Callable[[str], Opinion]
    stubborn: float


def family_of(labels: Iterable[str]) -> Family | None:
    """The family that all of these labels are of."""
    return next((family for family in _FAMILIES if family.labels.issuperset(labels)), None)


@lru_cache(MEMORY)
def _topic(text: str) -> Opinion:
    found = [topic for word in _words_of(text) for topic in _TOPICS_OF.get(word, ())]
    (most, topic), (next_most, _), *_ = sorted(((found.count(topic), topic) for topic in _TOPICS), key=_by_count)
    return Opinion(topic, _clarity(most - next_most))


def _by_count(counted: tuple[int, str]) -> int:
    return -counted[0]


@lru_cache(MEMORY)
def _sentiment(text: str) -> Opinion:
    total, turned = 0, 0
    for word in _words_of(text):
        degree = _DEGREE_OF.get(word, 0)
        total += -degree if turned else degree
        turned = NEGATED if word in _NEGATIONS else max(0, turned - 1)
    return Opinion(_DEGREES[2 + max(-2, min(2, total))], _clarity(abs(total)))


def _clarity(lead: int) -> float:
    return 1 - UNCLEAR**lead


def _words_of(text: str) -> list[str]:
    return _WORD.findall(text.lower())


_FAMILIES = (
    Family(frozenset(_TOPICS), _topic, stubborn=16.0),
    Family(frozenset(_DEGREES), _sentiment, stubborn=1.0),
)
