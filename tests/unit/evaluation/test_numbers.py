"""Numbers at the end of answers: what is one number, and what is compared as a whole."""

from fractions import Fraction

import pytest

from ease_lib.evaluation.metrics import METRICS
from ease_lib.evaluation.numbers import Percentage, final_number


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        ("Rs 1,50,000", "150000"),  # grouped as in India
        ("12,34,567.50", "1234567.5"),
        ("₹7,00,00,000", "7 crore"),
        ("1,2345,6789", "123456789"),  # as in China
        ("1,2345", "12345"),
        ("۱٬۲۳۴٫۵", "1234.5"),  # Persian
        ("١٢٬٣٤٥", "12,345"),  # Arabic
        ("१२,३४,५६७", "1234567"),  # Hindi
        ("１，２３４．５", "1234.5"),  # full width
        ("1\u2009234\u2009567", "1234567"),  # thin spaces
        ("12\u00a0345", "12345"),
        ("1’234’567.80", "1'234'567.8"),  # Swiss
        ("1.234.567,89", "1234567.89"),  # German
        ("0,12345", "0.12345"),
        ("3,14159", "3.14159"),
        ("0,123", "0.123"),
        ("$1.2 million", "1200000"),
        ("$1.2 million", "1,200,000"),
        ("1.2-million", "$1.2m"),
        ("$5m", "5 million"),
        ("£ 3bn", "3,000 million"),
        ("5M", "5,000,000"),
        ("10k", "10,000"),
        ("10K people", "10 thousand"),
        ("3 lakh", "3,00,000"),
        ("2.5 lakhs", "250000"),
        ("2 lac", "200000"),
        ("1.5 lakh crore", "1.5 trillion"),
        ("2 hundred thousand", "200000"),
        ("3万", "30000"),
        ("1.5亿", "150000000"),
        ("-$1.2 million", "-1200000"),
        ("2 1/2 million", "2500000"),
        ("1/2 million", "500000"),
        ("50%", "50"),
        ("50 %", "50 percent"),
        ("50%", "0.5"),
        ("٥٠٪", "50 per cent"),
        ("10–12", "10-12"),
        ("10 – 12 days", "10-12"),
        ("10-12 million", "10,000,000-12,000,000"),
        ("2026-01-02", "2026/01/02"),
        ("+49 30 1234567", "+49 (30) 123-4567"),
        ("10^6", "1 million"),
        ("10⁶", "1000000"),
        (r"\boxed{1{,}234}", "1234"),
        (r"\boxed{2\frac{1}{2}}", "2.5"),
        (r"1.5 \times 10^{3}", "1500"),
        ("12 \u200b345", "12345"),
        ("1_000_000", "1,000,000"),
        ("3 ½", "3.5"),
        ("–3", "-3"),
        ("1億2000万円", "120000000"),
        ("3万5千", "35,000"),
        ("1억 2000만", "1.2亿"),
        ("2026年11月28日", "2026-11-28"),
        ("2026년 11월 28일", "2026/11/28"),
        ("3時30分", "3:30"),
        ("1920x1080", "1920 × 1080"),
        ("The answer is 1 : 4", "1:4"),
        ("The answer is 12, not 13.", "12"),
        ("12 instead of 13", "12"),
        ("3.5 ± 0.2", "3.5±0.2"),
    ],
)
def test_numbers_are_equal_however_the_world_writes_them(answer, output):
    assert METRICS["number"](answer, [output]) == 1
    assert METRICS["number"](output, [answer]) == 1


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        ("12,34,567", "98,34,567"),
        ("7,00,00,000", "3,00,00,000"),
        ("1,2345,6789", "9,2345,6789"),
        ("۹٬۲۳۴", "۱٬۲۳۴"),
        ("1’234", "9’234"),
        ("12\u2009345", "98\u2009345"),
        ("12 34 567", "98 34 567"),
        ("1,23,45,6", "9,23,45,6"),  # grouped as nowhere
        ("1,23,45,6", "6"),
        ("10,20,30", "30"),
        ("1.234,56.7", "9.234,56.7"),
        ("10-12", "8-12"),
        ("10-12", "12"),
        ("10 – 12", "8 – 12"),
        ("10 - 12", "8 - 12"),
        ("10~12", "8~12"),
        ("1.5-2.5", "0.5-2.5"),
        ("$10-$12", "$8-$12"),
        ("10-12 million", "10-12 billion"),
        ("5-10%", "10%"),
        ("3:4", "1:4"),
        ("3:4", "3-4"),
        ("1.5:2", "2.5:2"),
        ("10:30:15.5", "9:30:15.5"),
        ("2026-01-02", "2025-01-02"),
        ("02.01.2026", "03.01.2026"),
        ("1.2.3", "2.2.3"),
        ("192.168.1.1", "10.168.1.1"),
        ("+49 30 1234567", "+44 30 1234567"),
        ("(555) 123-4567", "(444) 123-4567"),
        ("555-123-4567", "444-123-4567"),
        ("555 123 4567", "444 123 4567"),
        ("$1.2 million", "$1.2 billion"),
        ("$1.2 million", "1.2"),
        ("10k", "10"),
        ("3 lakh", "3 crore"),
        ("3万", "3亿"),
        ("50%", "0.5%"),
        ("50%", "5"),
        ("0.5%", "0.5 million"),
        ("10^6", "6"),
        (r"\boxed{1{,}234}", "234"),
        (r"\boxed{2\frac{1}{2}}", "10.5"),
        ("1_000_000", "0"),
        ("3 ¾", "3/4"),
        ("5億2000万", "1億2000万"),
        ("3万5千", "5千"),
        ("2026年11月28日", "2025年11月28日"),
        ("3時30分", "30"),
        ("1920x1080", "1080"),
        ("10 × 5", "5"),
        ("3 : 4", "1 : 4"),
        ("3 ± 0.5", "0.5"),
        ("1–5", "-5"),
    ],
)
def test_a_part_of_a_number_is_no_number(answer, output):
    assert METRICS["number"](answer, [output]) == 0
    assert METRICS["number"](output, [answer]) == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("it is 5m long", 5),
        ("it takes 5 m", 5),
        ("5 km", 5),
        ("300 K", 300),
        ("5 kg", 5),
        ("5 b", 5),
        ("5 mammals", 5),
        ("the 5th", 5),
        ("2 millionaires", 2),
    ],
)
def test_a_unit_is_no_word_of_size(text, expected):
    assert final_number(text) == expected


def test_a_difference_is_no_range_where_its_result_follows():
    assert final_number("10-3=7") == final_number("10 - 3 = 7") == final_number("10 – 3 = 7") == 7
    assert final_number("Step 3 - 42") == 42


def test_a_percentage_is_the_number_before_its_sign():
    assert final_number("it rose by 12.5 %") == Fraction("12.5")
    assert isinstance(final_number("12.5 %"), Percentage)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is $1,234.50", "1234.50"),
        ("72.", "72"),
        ("-3", "-3"),
        ("\u22123", "-3"),
        ("-$3", "-3"),
        ("10-3=7", "7"),
        ("= 18 dollars", "18"),
        ("x = .5", "0.5"),
        ("Rs.54", "54"),
        ("25 m\u00b2", "25"),
        ("\uff11\uff12", "12"),
        ("12\n####\n-7", "-7"),
        ("12\n#### none", None),
        (r"\boxed{n} for n = 4", "4"),
        ("none", None),
        ("1/4", "1/4"),
        ("he ate 3/4 of it", "3/4"),
        ("2 1/2 cups", "5/2"),
        ("2\u00bd cups", "5/2"),
        (r"\boxed{\frac{1}{4}}", "1/4"),
        ("3/0", None),
        ("1e5", "100000"),
        ("1.5e3", "1500"),
        ("2E-3", "0.002"),
        ("1.5 \u00d7 10\u00b3", "1500"),
        ("2 * 10^3", "2000"),
        ("1 234 567", "1234567"),
        ("1\u202f234,5", "1234.5"),
        ("1'234.50", "1234.5"),
        ("1.234,56", "1234.56"),
        ("1.234.567", "1234567"),
        ("1,234,567.8", "1234567.8"),
        ("3,5", "3.5"),
        ("1,234", "1234"),
        ("1.234", "1.234"),
        ("10, 20, 30", "30"),
        ("7 because 3+4", "7"),
        ("7 because she had 3, so 3 + 4 = 7", "7"),
        ("The answer is 7, since 3 and 4 make that", "7"),
        ("The answer is 7. I checked all 3 cases.", "7"),
        ("<think>3 + 5 = 8</think>7", "7"),
    ],
)
def test_the_final_number_is_found(text, expected):
    assert final_number(text) == (None if expected is None else Fraction(expected))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2024-05-12", "2023-01-12"),
        ("12/05/2024", "13/05/2024"),
        ("2024-05-12 10:30", "2024-05-13 10:30"),
        ("10:30", "9:30"),
        ("3:4", "1:4"),
        ("1.2.3", "2.2.3"),
    ],
)
def test_a_date_a_time_or_a_ratio_counts_as_a_whole(one, other):
    assert METRICS["number"](one, [one]) == 1
    assert METRICS["number"](one, [other]) == 0


def test_a_number_too_large_to_be_meant_is_read_in_no_time():
    assert final_number("1e999999999") is None
