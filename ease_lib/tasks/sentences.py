"""Everyday English sentences from a grammar of our own, for the task `lp_variant`.

They stand in for the sentences that the paper translates (`pig_latin` of BIG-bench), which we do not ship: 7.8
words long (theirs: 7.2), with a tenth fewer different words. Three in four tell of people, things and places; the
others ask, request or exclaim.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np


def _listed(text: str) -> tuple[str, ...]:
    """The entries of a list that commas part."""
    return tuple(entry.strip() for entry in " ".join(text.split()).split(","))


_WORDS = {
    "name": _listed(
        """Tom, Mary, Alice, Oscar, Ivan, Chris, Emma, Noah, Olivia, Liam, Yusuf, Fatima, Hana, Kenji, Priya, Arjun,
        Elena, Marco, Sofia, Diego, Ingrid, Lars, Chloe, Hugo, Amara, Kofi, Leila, Omar, Svetlana, Boris, Greta,
        Felix, Naomi, Samuel, Ruth, Walter, Irene, Victor, Zoe, Ahmed, Beatrice, Carlos, Dorothy, Ethan, Grace,
        Harold, Isabel, Julian, Katarina, Matteo, Nadia, Patrick, Quentin, Rosa, Stefan, Tamara, Ulrich, Vera,
        Wendy, Yolanda, Andrew"""
    ),
    "person": _listed(
        """the teacher, my uncle, our neighbour, her sister, his brother, the doctor, an old friend, the mayor, the
        baker, my grandmother, the plumber, a stranger, the captain, their cousin, the librarian, an engineer, the
        nurse, the gardener, my boss, the waiter, a tourist, the judge, our landlord, the pianist, a child, the
        pilot, my daughter, the farmer, an actor, the lawyer, nobody, everyone, somebody, the whole family, the
        other team, your son, each passenger, another customer, the prime minister, the goalkeeper, a young couple,
        the night guard"""
    ),
    "relative": _listed("mother, father, aunt, nephew, niece, wife, husband, grandfather, roommate, colleague, twin"),
    "job": _listed(
        """dentist, carpenter, journalist, firefighter, translator, tailor, butcher, fisherman, novelist, accountant,
        electrician, soldier, biologist, photographer, mechanic, chemist, violinist, referee, geologist, surgeon,
        detective, hairdresser, astronomer, salesman, architect, interpreter, umpire, economist, historian, editor"""
    ),
    "mood": _listed(
        """tired, happy, hungry, lonely, polite, rude, brave, clever, lazy, nervous, proud, jealous, patient, careful,
        curious, generous, stubborn, suspicious, thirsty, exhausted, sleepy, greedy, serious, eager, idle, odd,
        angry, honest, famous, quiet, ill, shy, confused, grateful, worried, optimistic, unlucky, annoyed, talented,
        innocent, rich, injured, cheerful, disappointed, sarcastic, ambitious, homesick, amused, embarrassed,
        guilty, pregnant"""
    ),
    "quality": _listed(
        """expensive, empty, strange, dangerous, beautiful, heavy, worthless, broken, enormous, tiny, cheap, ancient,
        modern, noisy, dusty, slippery, fragile, sharp, warm, icy, muddy, crowded, invisible, reliable, colourful,
        lovely, horrible, narrow, shallow, steep, ordinary, unusual, awful, incredible, peaceful, transparent,
        wonderful, harmless, ridiculous, urgent, upside down, complicated, sacred, famous, electric, gloomy, huge,
        rusty, perfect"""
    ),
    "thing": _listed(
        """bridge, garden, umbrella, elevator, island, village, kitchen, mountain, painting, orchestra, airport,
        engine, hospital, museum, river, tunnel, castle, market, library, ceiling, curtain, mirror, pillow, ladder,
        bottle, camera, keyboard, telescope, wallet, suitcase, blanket, candle, hammer, violin, bicycle, ambulance,
        tractor, sandwich, omelette, onion, avocado, pumpkin, octopus, penguin, squirrel, owl, spider, eagle,
        donkey, question, idea, problem, interview, exam, accident, argument, holiday, story, forest, storm, sunset,
        shadow, journey, wedding, festival, concert, novel, recipe, invention, experiment, ocean, statue, helmet,
        necklace, envelope"""
    ),
    "things": _listed(
        """apples, tickets, windows, sausages, shoes, cookies, lemons, chairs, coins, stamps, clouds, insects,
        icebergs, volcanoes, languages, students, workers, guests, elephants, wolves, geese, rumours, rules,
        photographs, letters, eggs, olives, umbrellas, engines, diamonds, bones, feathers, ideas, mistakes,
        promises, islands, oranges, trees, rivers, streets, buildings, planets, customers, errands, secrets, shirts,
        gloves, batteries, mushrooms, pianos, uniforms, keys, owls, mosquitoes, tomatoes, bricks, blueberries,
        receipts, passports, sharks, earthquakes"""
    ),
    "place": _listed(
        """in the garden, near the station, on the island, behind the church, at the airport, under the bridge, in my
        pocket, next to the river, inside the castle, at school, in the basement, across the street, around the
        corner, on the roof, between two hills, above the clouds, in Oslo, in Italy, in Algeria, outside the office,
        at the zoo, in the attic, by the fireplace, along the coast, in the desert, upstairs, abroad, in the
        suburbs, at the dentist, in the countryside, over there, on the third floor, in Australia, at home, in
        Egypt, beside the lake, in the cupboard, at the edge of the forest, on the opposite shore, in an old
        factory, among the ruins"""
    ),
    "country": _listed(
        """Iceland, Uruguay, Japan, Ethiopia, Norway, Brazil, Indonesia, Ireland, Portugal, Kenya, Mongolia, Argentina,
        Peru, Austria, Vietnam, Ukraine, Greece, Finland, Estonia, Chile, Albania, Oman, Nepal, Croatia, Ecuador"""
    ),
    "time": _listed(
        """today, yesterday, every evening, on Friday, this morning, again, at noon, before breakfast, after school,
        once more, last winter, in October, at midnight, an hour ago, during the summer, all weekend, three years
        ago, twice, in the afternoon, two days later, after the game, on Monday, at dawn, the other night, a while
        ago, for the first time, as usual, without permission, for no reason, in spite of the rain, against my
        advice"""
    ),
    "future": _listed(
        """tomorrow, next week, soon, in August, tonight, before Thursday, later, next year, in an hour, on Sunday,
        now, for me, someday, if possible, by yourself, in your own words, while I am away, as soon as you can"""
    ),
    "adverb": _listed(
        """quietly, slowly, angrily, carefully, easily, eagerly, politely, suddenly, honestly, badly, loudly, calmly,
        immediately, secretly, nervously, openly, gladly, clumsily, reluctantly, awkwardly, gracefully, briefly"""
    ),
    "number": _listed("two, three, four, six, seven, eight, eleven, twelve, thirteen, fifteen, twenty, thirty, fifty"),
    "act": _listed(
        """open the heavy door/opened the heavy door, buy fresh bread/bought fresh bread, forget the keys/forgot the
        keys, find a gold ring/found a gold ring, paint the iron fence/painted the iron fence, wear a scarf/wore a
        scarf, carry the wet towels/carried the wet towels, write an angry note/wrote an angry note, learn
        Arabic/learned Arabic, repair the old clock/repaired the old clock, watch the final match/watched the final
        match, sing opera/sang opera, cook spicy soup/cooked spicy soup, ask for help/asked for help, visit
        Paris/visited Paris, fall asleep/fell asleep, sell the piano/sold the piano, break a leg/broke a leg, drink
        green tea/drank green tea, climb that wall/climbed that wall, catch a cold/caught a cold, lose the
        election/lost the election, borrow money/borrowed money, laugh/laughed, ride a camel/rode a camel, miss the
        last bus/missed the last bus, answer the phone/answered the phone, apologize/apologized, teach us
        chess/taught us chess, steal a boat/stole a boat, plant roses/planted roses, throw stones/threw stones, draw
        a map/drew a map, hide under the bed/hid under the bed, feed the ducks/fed the ducks, win a prize/won a
        prize, count the sheep/counted the sheep, study law/studied law, invite eleven people/invited eleven people,
        clean the stove/cleaned the stove, burn the papers/burned the papers, quit smoking/quit smoking, choose the
        blue one/chose the blue one, eat a whole pineapple/ate a whole pineapple, whisper a name/whispered a name,
        order pizza/ordered pizza, iron a shirt/ironed a shirt, explain the joke/explained the joke, vote/voted,
        arrest the thief/arrested the thief, shake hands/shook hands, wash the dishes/washed the dishes, translate a
        poem/translated a poem, finish the homework/finished the homework, park the truck/parked the truck, dig a
        deep hole/dug a deep hole, ignore the advice/ignored the advice, avoid traffic/avoided traffic, wait/waited,
        tell the truth/told the truth, fly a kite/flew a kite, admit everything/admitted everything, yawn/yawned,
        sign the contract/signed the contract, bake a cake/baked a cake, accept the offer/accepted the offer,
        argue/argued, pack some clothes/packed some clothes, trust the weather forecast/trusted the weather
        forecast, hesitate/hesitated, deliver a speech/delivered a speech, rob a bank/robbed a bank, peel
        potatoes/peeled potatoes, retire/retired, wake the baby/woke the baby, follow these instructions/followed
        these instructions, act strangely/acted strangely, light a fire/lit a fire, hang the picture/hung the
        picture, weigh the luggage/weighed the luggage, shout/shouted, knit a sweater/knitted a sweater, hire a
        cook/hired a cook, spill some ink/spilled some ink, dance/danced, describe the suspect/described the
        suspect, cancel our reservation/cancelled our reservation, kneel/knelt"""
    ),
}
_PATTERNS = """
{S} {past} {time}.
{S} {past} {time} {place}.
{S} never {past} {place}.
{S} almost {past} {time}.
I think that {s} {past} {time}.
{S} said that {s} {past} {time}.
{S} knew that {s} was {mood} and {mood}.
I saw {s} {place} {time}.
{S} wanted to {base} and {base}.
{S} promised to {base} {future}.
{S} refused to {base} with {s}.
{S} was too {mood} to {base} {time}.
{S} {past} because {s} was {mood}.
{S} {past} while {s} {past}.
{S} seemed really {mood} {time}.
Maybe {s} will apologize to {s} {future}.
The {thing} {place} was {quality}.
{S} lives with {s} {place}.
There is {a quality} {thing} {place}.
This {thing} is not {quality} enough.
These {things} are more {quality} than those {things}.
We saw {number} {things} {place} {time}.
My {relative} is {a job} {place}.
{S} has been to {country} and {country}.
{S} spoke {adverb} with {a job}.
We need {number} more {things} and {a thing}.
{S} is afraid of {things}.
Most {things} come from {country}.
You should not {base} so {adverb}.
{S} became {a job} in {country}.
What {s} needs is {a quality} {thing}.
Did {s} {base} {time}?
Will {s} {base} {future}?
Why is the {thing} so {quality}?
How many {things} are there {place}?
Can you {base} {adverb}?
Please {base} {future}.
What {a quality} {thing}!
""".strip().splitlines()
_SLOT = re.compile(r"\{(a )?(\w+)\}")


def sentence(draw: np.random.Generator) -> str:
    """One of them, at random."""

    def fill(slot: re.Match[str]) -> str:
        article, kind = slot.groups()
        if kind in ("S", "s"):
            words = _pick(_WORDS[("name", "person")[int(draw.integers(2))]], draw)
            return words[0].upper() + words[1:] if kind == "S" else words
        if kind in ("base", "past"):
            return _pick(_WORDS["act"], draw).split("/")[kind == "past"]
        words = _pick(_WORDS[kind], draw)
        return f"{'an' if words[0] in 'aeiou' else 'a'} {words}" if article else words

    return _SLOT.sub(fill, _pick(_PATTERNS, draw))


def _pick(options: Sequence[str], draw: np.random.Generator) -> str:
    return options[int(draw.integers(len(options)))]


VOCABULARY = frozenset(
    word
    for text in (*(_SLOT.sub(" a an ", pattern) for pattern in _PATTERNS), *sum(_WORDS.values(), ()))
    for word in re.findall("[a-z]+", text.lower())
)
"""All words of the sentences, in lower case."""
