"""The report: selection, comparison, the table, JSON, the page, and an index that is fresh."""

import inspect
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from judged_claims import CLAIMS

from paper_checks import run
from paper_checks.claim import CHANGES, CONDITIONS, COSMETIC, INFERRED, PACKAGES, PRINTED, TITLES
from paper_checks.counts import errors, verdicts_of
from paper_checks.evidence import Evidence
from paper_checks.formula import typeset
from paper_checks.index import INDEX, index
from paper_checks.page import page
from paper_checks.readme import README, readme
from paper_checks.report import as_json, summary, table
from paper_checks.run import differences, judge_tag, recorded, select
from paper_checks.source import source_of
from paper_checks.summary import Sentence, Summary, summaries
from paper_checks.verdict import FAILS, HOLDS, HOLDS_IF, IDENTITY, OURS, SLIP, UNDECIDED, VERDICTS, Verdict

RECORDED = recorded()
LEMMA = CLAIMS["f-grpo:lemma-3.1"]
NASTY = "a < b & \"c\" </p><script>alert('x')</script> $total"


def verdict_of(claim, verdict=HOLDS, **more):
    """A verdict made up for a claim."""
    made_up = Verdict(
        claim.tag, claim.paper, claim.where, claim.says, claim.formula, verdict, "", "", "", "",
        (Evidence("symbolic", verdict == HOLDS, "1 case"), Evidence("Monte Carlo", None, "2 settings")), claim.reading,
        PRINTED, "", "", "", "",
    )  # fmt: skip
    return replace(made_up, **more)


EACH = [
    verdict_of(LEMMA),
    verdict_of(
        LEMMA, HOLDS_IF, condition="tau > 0", counterexample="tau = 0: 1", computed="The rate.", severity=CONDITIONS,
        met="yes: tau is .1",
    ),
    verdict_of(
        LEMMA, FAILS, counterexample="G = 1: stated 0, found 1", correction="another", severity=CHANGES,
        same_error_as="f-grpo:eq-5", caveat="at one group size",
    ),
    verdict_of(
        LEMMA, SLIP, counterexample="G = 2: stated 0, found 1", correction="the form that was meant", severity=COSMETIC
    ),
    verdict_of(LEMMA, UNDECIDED, condition="a 7B model", evidence=()),
    verdict_of(LEMMA, OURS, counterexample="they differ", evidence=()),
    verdict_of(LEMMA, IDENTITY),
]  # fmt: skip
TOLD = {
    "f-grpo": Summary([Sentence("Rare answers need large groups.", {LEMMA.tag: HOLDS})], [Sentence("The rest.", {})])
}


def test_claims_are_selected_by_paper_and_tag():
    assert select(CLAIMS) == list(CLAIMS.values())
    assert select(CLAIMS, "f-grpo") == [claim for claim in CLAIMS.values() if claim.paper == "f-grpo"]
    for paper, tag in [(None, LEMMA.tag), ("f-grpo", LEMMA.tag), ("f-grpo", "lemma-3.1")]:
        assert select(CLAIMS, paper, tag) == [LEMMA]


def test_differences_name_what_was_recorded_and_what_was_found():
    known = {"fade:eq-1": HOLDS, "fade:eq-2": FAILS, "fade:eq-3": HOLDS}
    verdicts = {"fade:eq-1": HOLDS, "fade:eq-2": HOLDS, "fade:eq-4": SLIP}
    changed = ["fade:eq-2: recorded fails, found holds", "fade:eq-4: recorded nothing, found slip"]
    assert differences(verdicts, known, everything=False) == changed
    assert differences(verdicts, known, everything=True) == [*changed, "fade:eq-3: recorded holds, claimed no more"]
    assert differences(known, known, everything=True) == []


def test_an_error_in_one_check_is_ours_and_loses_no_other(monkeypatch):
    def breaks(statement):
        raise ZeroDivisionError("by zero")

    broken = replace(LEMMA, tag="fade:broken", decide=breaks)
    monkeypatch.setattr(run, "CLAIMS", {LEMMA.tag: LEMMA, broken.tag: broken})
    judgement = judge_tag(broken.tag)
    assert (judgement.verdict, judgement.counterexample) == (OURS, "the check ended in ZeroDivisionError: by zero")
    assert [verdict.verdict for verdict in run.judge_all([broken, LEMMA], jobs=1)] == [OURS, HOLDS]


def test_the_table_keeps_to_the_width_and_says_why_a_claim_does_not_hold():
    for width in (80, 120):
        printed = table(EACH, width)
        assert max(map(len, printed.splitlines())) <= width
        words = " ".join(printed.split())
        for remark in (
            "if: tau > 0", "counterexample: tau = 0: 1", "computed: The rate.", "instead: another",
            "instead: the form that was meant",
            "needs: a 7B model", "ours: they differ", "met in the paper: yes: tau is .1",
            "severity: changes a conclusion", "same error as: f-grpo:eq-5", "caveat: at one group size",
        ):  # fmt: skip
            assert remark in words
    assert printed.splitlines()[0].split() == ["tag", "claim", "verdict", "evidence"]
    assert "+ symbolic" in printed
    assert "? Monte Carlo" in printed


def test_the_summary_counts_by_verdict():
    assert summary(EACH) == "7 claims: " + ", ".join(f"1 {verdict}" for verdict in VERDICTS)
    assert summary(EACH[:1]) == "1 claim: 1 holds"


def test_json_has_an_object_for_each_claim_with_every_field():
    entries = json.loads(as_json(EACH), parse_constant=pytest.fail)["verdicts"]
    assert [entry["verdict"] for entry in entries] == [verdict.verdict for verdict in EACH]
    assert set(entries[0]) == {
        "tag", "paper", "where", "claim", "formula", "verdict", "condition", "counterexample", "computed", "correction",
        "evidence", "reading", "whose", "caveat", "severity", "met", "same_error_as",
    }  # fmt: skip
    assert entries[1]["evidence"] == [
        {"method": "symbolic", "stands": False, "figures": "1 case", "counterexample": ""},
        {"method": "Monte Carlo", "stands": None, "figures": "2 settings", "counterexample": ""},
    ]


class Elements(HTMLParser):
    """The elements of a page as (name, attributes), each closed in its turn, and its text."""

    EMPTY = frozenset({"meta", "input"})

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self._open = [], [], []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in self.EMPTY:
            self._open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def all_of(document, name):
    """The attributes of all elements of a name."""
    return [attributes for tag, attributes in document.elements if tag == name]


def test_the_page_needs_nothing_but_itself():
    document = Elements(page(EACH, CLAIMS, TOLD))
    for name, attributes in document.elements:
        assert name not in {"link", "img", "iframe", "object", "base", "embed"}
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
    (policy,) = (entry["content"] for entry in all_of(document, "meta") if "http-equiv" in entry)
    assert policy.startswith("default-src 'none'; ")
    style = next(text for text in document.texts if "prefers-color-scheme: dark" in text)
    assert "url(" not in style
    assert "@import" not in style


def test_the_page_has_a_card_a_claim_with_formula_and_code():
    chosen = [next(claim for claim in CLAIMS.values() if claim.paper == paper) for paper in PACKAGES]
    document = Elements(page([verdict_of(claim) for claim in chosen], CLAIMS, {}))
    cards = all_of(document, "article")
    assert [card["id"] for card in cards] == [claim.tag for claim in chosen]
    assert len(all_of(document, "math")) == sum(bool(claim.formula) for claim in chosen)
    text = "".join(document.texts)
    for claim in chosen:
        assert all(field in text for field in (claim.says, claim.where, claim.reading, TITLES[claim.paper])), claim.tag
    ids = [attributes["id"] for _, attributes in document.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    linked = {attributes["href"][1:] for attributes in all_of(document, "a")}
    assert linked <= set(ids)


def test_everything_on_the_page_is_escaped():
    nasty = verdict_of(
        replace(LEMMA, says=NASTY, where=NASTY, reading=NASTY, formula=r"\undefined{<b>}"), FAILS,
        counterexample=NASTY, correction=NASTY, evidence=(Evidence(NASTY, False, NASTY, NASTY + "!"),),
    )  # fmt: skip
    document = Elements(page([nasty], {LEMMA.tag: replace(LEMMA, refuted_by=NASTY)}, {}))
    assert len(all_of(document, "script")) == 1
    assert "".join(document.texts).count(NASTY) >= 8
    assert r"\undefined{<b>}" in "".join(document.texts)


def test_what_does_not_hold_is_open_to_the_eye_the_gravest_first_and_our_inferences_are_not_among_it():
    inferred = verdict_of(LEMMA, FAILS, whose=INFERRED, severity=CHANGES)
    chosen = [replace(verdict, tag=f"f-grpo:eq-{number}") for number, verdict in enumerate([*EACH, inferred])]
    text = page(chosen, {verdict.tag: LEMMA for verdict in chosen}, TOLD)
    listed = text[text.index("What does not hold as printed") : text.index("<form>")]
    assert re.findall(r'href="#f-grpo:eq-(\d)"', listed) == ["2", "1", "3"]
    assert "<details" not in listed
    for phrase in ("yes: tau is .1", "at one group size", "Changes a conclusion"):
        assert phrase in listed


@pytest.mark.parametrize("formula", ["p^{", r"\unknown", "a & b"])
def test_what_cannot_be_typeset_is_refused(formula):
    with pytest.raises(ValueError, match="cannot be typeset"):
        typeset(formula)


def test_every_formula_can_be_typeset():
    broken = {}
    for claim in CLAIMS.values():
        try:
            typeset(claim.formula or "0")
        except ValueError as error:
            broken[claim.tag] = str(error)
    assert broken == {}


@pytest.mark.parametrize("paper", PACKAGES)
def test_the_code_of_every_claim_is_its_own(paper):
    for claim in CLAIMS.values():
        if claim.paper == paper and not claim.needs:
            entry, *used = source_of(claim)
            assert f'"{claim.tag}"' in entry or entry.startswith("enter_averages("), claim.tag
            assert any(inspect.getsource(claim.decide).strip() in source for source in (entry, *used)), claim.tag


def test_a_variable_pulls_in_no_claim_of_its_name():
    """``ratio`` is a variable in the check of Equation 20, and the check of Equation 19 in its module."""
    source = "\n".join(source_of(CLAIMS["fade:eq-20"]))
    assert "ratio" in source
    assert "fade:eq-19" not in source


def test_the_index_is_fresh():
    """After a change of wording: python -m paper_checks.index; of verdicts: python -m paper_checks.record."""
    assert INDEX.read_text(encoding="utf-8") == index(list(CLAIMS.values()), RECORDED)


def test_the_first_page_is_fresh():
    assert README.read_text(encoding="utf-8") == readme(list(CLAIMS.values()), RECORDED, summaries())


def test_the_first_page_is_read_in_five_minutes():
    """1,200 words, tables included and what is folded away not."""
    unfolded = re.sub(r"<details>.*?</details>", "", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(unfolded.split()) <= 1200


def test_the_first_page_marks_what_it_infers():
    inferred, plain = replace(LEMMA, tag="f-grpo:inferred", inferred=True), replace(LEMMA, tag="f-grpo:said")
    sentences = [Sentence("Both.", {inferred.tag: FAILS, plain.tag: FAILS}), Sentence("One.", {inferred.tag: FAILS})]
    page_of_two = readme([inferred, plain], {}, {"f-grpo": Summary(sentences, [Sentence("Rest.", {plain.tag: HOLDS})])})
    for text in ("Both. *Partly our inference.*\n", "One. *Our inference.*\n", "What stands: Rest.\n"):
        assert text in page_of_two


def test_every_sentence_of_the_first_page_tells_the_recorded_verdicts():
    for paper, summary_of_paper in summaries().items():
        assert len(summary_of_paper.findings) == 5
        assert summary_of_paper.stands
        for sentence in (*summary_of_paper.findings, *summary_of_paper.stands):
            told = {tag: RECORDED.get(tag) for tag in sentence.verdicts}
            assert told == sentence.verdicts, sentence.text
            assert any(tag.startswith(f"{paper}:") for tag in told), sentence.text


def test_our_inferences_are_counted_apart_and_errors_of_one_cause_once():
    cause, effect, other = (replace(LEMMA, tag=f"f-grpo:{name}") for name in ("cause", "effect", "other"))
    chosen = [cause, replace(effect, same_error_as="f-grpo:cause"), other, replace(LEMMA, inferred=True)]
    verdicts = {claim.tag: FAILS for claim in chosen}
    assert errors(chosen, verdicts) == 2
    assert errors(chosen, verdicts | {"f-grpo:other": HOLDS}) == 1
    assert verdicts_of(chosen, verdicts, inferred=False) == {FAILS: 3}
    assert verdicts_of(chosen, verdicts, inferred=True) == {FAILS: 1}


def test_every_claim_that_fails_says_how_much_it_matters_and_every_condition_whether_it_is_met():
    of_papers = [claim for claim in CLAIMS.values() if claim.paper != "simlab"]
    assert [claim.tag for claim in of_papers if RECORDED.get(claim.tag) == FAILS and not claim.severity] == []
    conditions = [claim for claim in of_papers if RECORDED.get(claim.tag) == HOLDS_IF]
    answers = ("yes: ", "no: ", "partly: ", "unknown: ")
    assert [claim.tag for claim in conditions if not claim.met.startswith(answers)] == []


def test_a_cause_is_a_claim_of_its_own_that_does_not_hold_as_printed():
    for claim in CLAIMS.values():
        if claim.same_error_as:
            cause = CLAIMS[claim.same_error_as]
            assert RECORDED[cause.tag] in (FAILS, HOLDS_IF, SLIP), claim.tag
            assert cause.same_error_as == "", claim.tag


def test_every_claim_is_recorded_and_no_other():
    assert list(RECORDED) == list(CLAIMS)
    assert set(RECORDED.values()) <= set(VERDICTS) - {OURS}


def test_every_file_that_the_index_links_to_exists():
    links = re.findall(r"\]\(([^)]+\.py)\)", index(list(CLAIMS.values()), {}))
    assert len(links) == len(CLAIMS)
    assert {link for link in links if not (INDEX.parent / link).is_file()} == set()
