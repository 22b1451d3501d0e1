"""Questions whose answers contradict each other, of a thousand random ones."""

from collections.abc import Iterator

from evaluation.options import Options
from plan_questions import contradictions, random_question
from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.planner.planner import Planner

_QUESTIONS = 1000


def evaluate(_: Options) -> Iterator[str]:
    """Yield how many questions have contradicting answers, and the first of these."""
    planner = Planner(built_in(), built_in_prices())
    faults = []
    for seed in range(_QUESTIONS):
        question = random_question(seed)
        faults += [(question, fault) for fault in contradictions(planner, question)]
    yield f"{_QUESTIONS:,} random questions, {len(faults)} contradictions.\n"
    for question, fault in faults[:20]:
        words = " ".join(f"--{word} {value}" for word, value in question.items())
        yield f"- `{words}`: {fault}"
