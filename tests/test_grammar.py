"""The language of arms: what is one, what it says, how it is written again, and how all else is refused."""

import time

import pytest
from arm_texts import INVALID, VALID
from hypothesis import example, given
from hypothesis import strategies as st
from sweep_cases import refusal

from simlab.arms import parse, parse_list
from simlab.errors import InputError
from simlab.estimators import REGISTRY
from simlab.grammar import LONGEST_LIST, Part, Written, read, split, write
from simlab.surrogates import AGGREGATIONS, SURROGATES
from simlab.values import read_value

# What is an arm


@pytest.mark.parametrize("text", VALID)
def test_an_arm_is_a_base_with_what_is_added_and_an_aggregation(text):
    (base, added, aggregation) = VALID[text]
    parts = [Part(name, tuple(parameters.items())) for name, parameters in (base, *added)]
    assert read(text) == Written(parts[0], tuple(parts[1:]), aggregation)


@pytest.mark.parametrize("text", INVALID)
def test_what_is_no_arm_is_refused_with_the_place_and_what_is_allowed(text):
    assert INVALID[text] in refusal(read, text)


def test_whole_numbers_are_ints_however_they_are_written():
    (_, parameters), _, _ = read("a(x=3,y=3.0,z=0.3e1,u=3.5)")
    assert [(value, type(value)) for _, value in parameters] == [(3, int), (3, int), (3, int), (3.5, float)]


def test_nothing_is_built_and_no_file_opened():
    assert parse("nobody(knows=this)+nor_that@or_this").estimator_name == "nobody"
    assert parse("nowhere/to_be.py:found(power=2)").files == ("nowhere/to_be.py:found",)


def test_an_arm_says_its_text_its_base_and_the_files_that_it_names():
    arm = parse("  grpo(eps=1e-3) + a.py:x + kl_penalty + a.py:x ")
    assert (arm.text, arm.estimator_name) == ("grpo(eps=1e-3) + a.py:x + kl_penalty + a.py:x", "grpo")
    assert (arm.files, parse("grpo").files) == (("a.py:x",), ())


# Lists


def test_a_list_of_arms_is_parted_by_commas_outside_of_brackets():
    assert split("grpo") == ("grpo",)
    text = "grpo, f_grpo(gamma=0.5,base=maxrl),grpo+casp(alpha=0.05,candidates=4)@token_mean"
    assert split(text) == ("grpo", "f_grpo(gamma=0.5,base=maxrl)", "grpo+casp(alpha=0.05,candidates=4)@token_mean")
    assert [arm.estimator_name for arm in parse_list(text)] == ["grpo", "f_grpo", "grpo"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("grpo,", "arm '' cannot be read"),
        ("grpo,,maxrl", "arm '' cannot be read"),
        ("grpo(,maxrl", "arm 'grpo(,maxrl' cannot be read"),
        ("grpo),maxrl", "arm 'grpo)' cannot be read"),
        ("grpo," * LONGEST_LIST, f"(100000 characters) is too long; allowed: up to {LONGEST_LIST} characters"),
    ],
)
def test_a_list_with_what_is_no_arm_is_refused(text, message):
    assert message in refusal(parse_list, text)


# Spelling


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("grpo", " grpo() "),
        ("f_grpo(gamma=0.5,base=maxrl)", "f_grpo( base = maxrl, gamma = 5e-1 )"),
        ("maxrl+clip_higher@token_mean", "maxrl + clip_higher() @ token_mean"),
        ("f_grpo(gamma=1)", "f_grpo(gamma=1.0)"),
        ("fade(target_entropy=none)", "fade(target_entropy=None)"),
        ("a(x=1e22)", "a(x=10000000000000000000000)"),
    ],
)
def test_spelling_makes_no_other_arm_and_no_other_text(one, other):
    assert parse(one) == parse(other)
    assert hash(parse(one)) == hash(parse(other))
    assert str(parse(one)) == str(parse(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("grpo", "maxrl"),
        ("f_grpo", "f_grpo(gamma=1)"),  # which build the same, but not by what they say
        ("a(x=1)", "a(x=true)"),
        ("a(x=0)", "a(x=false)"),
        ("grpo+casp+kl_penalty", "grpo+kl_penalty+casp"),
        ("grpo", "grpo@token_mean"),
        ("a.py:x", "./a.py:x"),
    ],
)
def test_arms_that_say_something_else_are_not_equal(one, other):
    assert parse(one) != parse(other)


# Properties

names = st.from_regex(r"[a-z0-9_]{1,12}|[a-zA-Z_/.-]{0,9}\.py:[A-Za-z_]\w{0,9}", fullmatch=True)
numbers = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
words = st.from_regex(r"[\w.+/:-]{1,9}", fullmatch=True).map(str).filter(lambda word: isinstance(read_value(word), str))
keys = st.from_regex(r"[^\W\d]\w{0,9}", fullmatch=True)
parts = st.builds(
    Part, names, st.dictionaries(keys, numbers | words, max_size=4).map(lambda found: tuple(found.items()))
)
aggregations = st.none() | st.sampled_from(AGGREGATIONS)


@given(parts, st.lists(parts, max_size=3), aggregations)
def test_what_is_written_reads_back(base, added, aggregation):
    text = write(base, added, aggregation)
    assert read(text) == (base, tuple(added), aggregation)
    assert parse(str(parse(text))) == parse(text)
    assert str(parse(str(parse(text)))) == str(parse(text))


KNOWN = [*sorted(REGISTRY)[:9], *SURROGATES, *AGGREGATIONS, "kl_penalty", "gamma", "eps", "mine.py:w"]
tokens = st.sampled_from([*KNOWN, *"(),=+@ :./-", "1", "0.5", "1e9", "none", "1e999", "9" * 40, "\n", "é"])


@given(st.text() | st.lists(tokens, max_size=20).map("".join))
@example("9" * 5000)
@example("f_grpo(gamma=" + "9" * 900 + ")")
@example("f_grpo(gamma=1e" + "9" * 900 + ")")
@example("(" * 900)
@example("a+" * 400)
@example("." * 999 + ":")
def test_any_text_is_an_arm_or_refused_in_one_short_line(text):
    began, said = time.monotonic(), ""
    try:
        parse(text)
    except InputError as error:
        said = str(error)
    assert len(said.splitlines()) <= 1
    assert len(said) < 600
    assert time.monotonic() - began < 1


# Values


def test_values_are_numbers_or_words():
    texts = ("3", "-0.5", "1e-3", "true", "False", "none", "batch", "", "[1]", "NaN")
    assert [read_value(text) for text in texts] == [3, -0.5, 1e-3, True, False, None, "batch", "", "[1]", "NaN"]


def test_a_value_is_no_number_without_bounds():
    assert "(400 characters) is too long; allowed: up to 32 characters" in refusal(read_value, "1" * 400)
    assert "the number 1e400 is too large" in refusal(read_value, "1e400")
