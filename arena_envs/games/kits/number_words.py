"""English words of numbers below 100."""

ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def in_words(number: int) -> str:
    """A count below 100 in words; a digit in an answer's name would be read as its probability.

    >>> in_words(0), in_words(12), in_words(40), in_words(75)
    ('none', 'twelve', 'forty', 'seventy-five')
    """
    if number == 0:
        return "none"
    if number < len(ONES):
        return ONES[number]
    tens, ones = divmod(number, 10)
    return f"{TENS[tens - 2]}-{ONES[ones]}" if ones else TENS[tens - 2]
