import os
import sys
from pathlib import Path

import pytest

from benchmarks.isolation import Conversation, Limits, run_isolated

_MODULE = """
from benchmarks.isolation import answer_task, tell


def work(task):
    tell({"begins": task["work"]})
    exec(task["work"])
    return {"done": True}


assert answer_task(work)
"""


_CONVERSATION = """
from benchmarks.isolation import answer_task, questions, tell


def work(task):
    tell({"ready": True})
    for question in questions():
        tell({"product": task["factor"] * question["number"]})


answer_task(work)
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work.py").write_text(_MODULE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))


def test_messages_come_back_without_what_else_is_printed() -> None:
    outcome = run_isolated("work", {"work": "print('{}')"})
    assert outcome.messages == ({"begins": "print('{}')"}, {"done": True})
    assert outcome.failure is None


@pytest.mark.parametrize(
    ("work", "failure"),
    [
        ("raise ValueError('no such tool')", "ValueError: no such tool"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV"),
        ("import sys; sys.exit(3)", "exit code 3"),
        ("numbers = bytearray(1 << 30)", "MemoryError"),
    ],
)
def test_a_failure_is_told_with_what_was_said_before(work: str, failure: str) -> None:
    outcome = run_isolated("work", {"work": work}, limits=Limits(seconds=300, memory=1 << 29))
    assert outcome.messages == ({"begins": work},)
    assert outcome.failure == failure


def test_what_takes_too_long_is_ended() -> None:
    outcome = run_isolated("work", {"work": "import time; time.sleep(3600)"}, limits=Limits(seconds=2))
    assert outcome.failure == "took more than 2 s"


def test_a_process_stays_on_its_processors() -> None:
    some = frozenset([min(os.sched_getaffinity(0))])
    work = f"import os; assert os.sched_getaffinity(0) == {set(some)}"
    assert run_isolated("work", {"work": work}, limits=Limits(processors=some)).failure is None


def test_a_process_answers_until_it_ends(tmp_path: Path) -> None:
    (tmp_path / "talk.py").write_text(_CONVERSATION)
    with Conversation("talk", {"factor": 2}) as conversation:
        assert conversation.answer() == {"ready": True}
        assert [conversation.ask({"number": number}) for number in (3, 4)] == [{"product": 6}, {"product": 8}]
        with pytest.raises(EOFError, match="exit code 1"):
            conversation.ask({"unknown": 0})
