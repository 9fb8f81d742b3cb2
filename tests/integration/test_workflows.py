"""Workflows: what is stored before it is done, and what happens when it can't be."""

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from greenroom import CommandError, ComponentClient, WorkflowClient
from greenroom.errors import (
    EntityDeletedError,
    GreenroomError,
    HandlerError,
    InvalidCallError,
    StepCancelledError,
    TransitionNotAllowedError,
    WorkflowSuspendedError,
)
from greenroom.runtime import Runtime
from greenroom.settings import Settings
from greenroom.testkit import ManualClock
from tests.support.components import Counter
from tests.support.eventually import eventually
from tests.support.workflows import (
    HOUR,
    HurriedJourneys,
    Journey,
    Journeys,
    Script,
    StrictJourneys,
    new_script,
)

COMPONENTS = [Counter, Journeys, StrictJourneys, HurriedJourneys]


class Running:
    """A runtime on a file, that can be stopped, and killed as far as a test can."""

    def __init__(self, url: str, clock: ManualClock | None) -> None:
        self._settings = Settings(database_url=url, sweep_every=timedelta(seconds=0.2))
        self._clock = clock
        self.start()

    def start(self) -> None:
        self.runtime = Runtime(COMPONENTS, settings=self._settings, clock=self._clock)
        self.runtime.start()

    def restart(self) -> None:
        self.runtime.stop()
        self.start()

    @property
    def client(self) -> ComponentClient:
        return self.runtime.client

    def journey(self, name: str) -> WorkflowClient[Journeys]:
        return self.client.for_workflow(Journeys, name)

    def strict(self, name: str) -> WorkflowClient[StrictJourneys]:
        return self.client.for_workflow(StrictJourneys, name)

    def total(self, counter: str) -> int:
        return self.client.for_event_sourced_entity(Counter, counter).ask(Counter.total)


@pytest.fixture
def script() -> Script:
    return new_script()


@pytest.fixture
def running(sqlite_url: str, script: Script) -> Iterator[Running]:
    made = Running(sqlite_url, None)
    yield made
    made.runtime.stop()


@pytest.fixture
def on_both(database_url: str, script: Script) -> Iterator[Running]:
    """On each kind of database, for what rests on how it is stored."""
    made = Running(database_url, None)
    yield made
    made.runtime.stop()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def timed(sqlite_url: str, clock: ManualClock, script: Script) -> Iterator[Running]:
    """On a clock that stands still: sweeps wake what the test has made due."""
    made = Running(sqlite_url, clock)
    yield made
    made.runtime.stop()


def comes_to(workflow: WorkflowClient[Any], *status: str) -> bool:
    return eventually(lambda: workflow.status().status in status)


# -- steps follow each other ---------------------------------------------------------------


def test_a_command_starts_steps_that_follow_each_other(on_both: Running, script: Script) -> None:
    journey = on_both.journey("j")

    assert journey.ask(Journeys.start, "rome", adds=3) == "started"

    assert comes_to(journey, "ended")
    assert script.trace == ["first", "first called", "second", "second called"]
    assert journey.ask(Journeys.look) == Journey(places=("start", "rome", "end"))
    assert on_both.total("rome") == 6


def test_a_step_knows_what_it_is(running: Running, script: Script) -> None:
    running.journey("j").ask(Journeys.start, "rome")
    assert comes_to(running.journey("j"), "ended")

    first, second = script.seen
    assert (first.workflow_id, first.step, first.attempt) == ("j", "first", 1)
    assert first.idempotency_key != second.idempotency_key
    assert first.deadline - first.started_at == timedelta(seconds=5)
    assert not first.cancellation.is_set()


def test_a_workflow_that_was_never_started_has_a_status(running: Running) -> None:
    assert running.journey("none").status().status == "not-started"
    assert running.journey("none").ask(Journeys.look) == Journey()


def test_the_state_can_be_changed_without_going_anywhere(running: Running) -> None:
    journey = running.journey("j")

    assert journey.ask(Journeys.note, "here") == Journey(places=("here",))

    assert journey.status().status == "not-started"
    running.restart()
    assert running.journey("j").ask(Journeys.look) == Journey(places=("here",))


def test_a_command_that_is_declined_changes_nothing(running: Running, script: Script) -> None:
    journey = running.journey("j")
    journey.ask(Journeys.start, "rome")

    with pytest.raises(CommandError, match="has begun"):
        journey.ask(Journeys.start, "rome")

    assert comes_to(journey, "ended")
    assert script.trace.count("first") == 1


def test_a_command_that_raises_leaves_the_workflow_as_it_was(running: Running) -> None:
    journey = running.journey("j")
    journey.ask(Journeys.note, "here")

    with pytest.raises(HandlerError):
        journey.ask(Journeys.raise_it)

    assert journey.ask(Journeys.look) == Journey(places=("here",))


def test_the_same_key_starts_it_once(running: Running, script: Script) -> None:
    journey = running.journey("j").with_options(idempotency_key="k")

    assert journey.ask(Journeys.start, "rome") == "started"
    assert journey.ask(Journeys.start, "rome") == "started"

    assert comes_to(journey, "ended")
    assert script.trace.count("first") == 1


# -- commands while a step runs ------------------------------------------------------------


def test_reads_are_answered_while_a_step_runs(running: Running, script: Script) -> None:
    journey = running.journey("j")
    with script.held("first") as reached:
        journey.ask(Journeys.start, "rome")
        assert reached.wait(10)

        assert journey.ask(Journeys.look) == Journey(places=("start",))
        assert journey.status().steps == ("first",)


def test_commands_wait_for_the_end_of_the_step(running: Running, script: Script) -> None:
    journey = running.journey("j")
    answers: list[Journey] = []
    with script.held("first") as reached:
        journey.ask(Journeys.start, "rome")
        assert reached.wait(10)
        asking = threading.Thread(target=lambda: answers.append(journey.ask(Journeys.note, "x")))
        asking.start()
        journey.status()
        assert answers == []
    asking.join(10)

    # It came between the two steps: the second one found its change.
    assert answers == [Journey(places=("start", "rome", "x"))]
    assert comes_to(journey, "ended")
    assert journey.ask(Journeys.look) == Journey(places=("start", "rome", "x", "end"))


def test_a_command_between_steps_may_go_elsewhere(running: Running, script: Script) -> None:
    journey = running.journey("j")
    with script.held("first") as reached:
        journey.ask(Journeys.start, "rome")
        assert reached.wait(10)
        asking = threading.Thread(target=lambda: journey.ask(Journeys.stop, "enough"))
        asking.start()
        assert eventually(lambda: running.runtime.call is not None)
        time_to_arrive(running, "j")
    asking.join(10)

    assert comes_to(journey, "ended")
    assert script.trace == ["first", "first called"]
    assert journey.status().reason == "enough"


def time_to_arrive(running: Running, name: str) -> None:
    """Until a command has come to the instance, and waits for its step."""
    actor = next(one for one in running.runtime._directory.live() if one.ref.instance == name)
    assert eventually(lambda: bool(actor._waiting))  # type: ignore[attr-defined]


# -- ends ----------------------------------------------------------------------------------


def test_after_the_end_it_only_answers(running: Running) -> None:
    journey = running.journey("j")
    journey.ask(Journeys.note, "here")
    journey.ask(Journeys.stop, "enough")

    with pytest.raises(TransitionNotAllowedError, match="enough"):
        journey.ask(Journeys.note, "there")
    with pytest.raises(TransitionNotAllowedError, match="enough"):
        journey.ask(Journeys.visit_all, ["there"], 1)

    assert journey.ask(Journeys.look) == Journey(places=("here",))
    assert journey.ask(Journeys.only_reply) is False
    assert journey.status().reason == "enough"


def test_it_can_fail_with_a_reason(running: Running) -> None:
    journey = running.journey("j")
    journey.ask(Journeys.give_up, "no money")

    assert journey.status().status == "failed"
    assert journey.status().reason == "no money"


@pytest.mark.parametrize("ended", [False, True])
def test_a_deleted_workflow_is_empty(on_both: Running, *, ended: bool) -> None:
    journey = on_both.journey("j")
    journey.ask(Journeys.note, "here")
    if ended:
        journey.ask(Journeys.stop)

    journey.ask(Journeys.remove)

    for _ in range(2):
        journey = on_both.journey("j")
        assert journey.ask(Journeys.look) == Journey()
        assert journey.ask(Journeys.only_reply) is True
        assert journey.status().status == "deleted"
        with pytest.raises(EntityDeletedError):
            journey.ask(Journeys.start, "rome")
        on_both.restart()


def test_a_step_may_delete_it(running: Running) -> None:
    running.journey("j").ask(Journeys.start_at, "vanish")

    assert comes_to(running.journey("j"), "deleted")


def test_it_is_deleted_some_time_after_its_end(timed: Running, clock: ManualClock) -> None:
    hurried = timed.client.for_workflow(HurriedJourneys, "h")
    hurried.ask(HurriedJourneys.start)
    hurried.terminate("enough")
    clock.advance(timedelta(days=3))

    assert comes_to(hurried, "deleted")


# -- failing steps -------------------------------------------------------------------------


def test_a_step_is_run_again_until_it_succeeds(running: Running, script: Script) -> None:
    script.fail("first", 4)
    running.journey("j").ask(Journeys.start, "rome")

    assert comes_to(running.journey("j"), "ended")
    assert script.trace.count("first") == 5
    assert [one.attempt for one in script.seen[:5]] == [1, 2, 3, 4, 5]
    assert [one.last_error for one in script.seen[:2]] == [None, "ValueError: "]
    assert len({one.idempotency_key for one in script.seen[:5]}) == 1


def test_what_a_failed_attempt_has_called_is_not_called_twice(
    on_both: Running, script: Script
) -> None:
    script.fail("first called", 3)
    script.fail("second called", 3)
    on_both.journey("j").ask(Journeys.start, "rome", adds=5)

    assert comes_to(on_both.journey("j"), "ended")
    assert script.trace.count("first") == 4
    assert on_both.total("rome") == 10


def test_retries_end_in_the_failover(running: Running, script: Script) -> None:
    script.fail("work", 3)
    running.strict("s").ask(StrictJourneys.start_at, "work")

    assert comes_to(running.strict("s"), "ended")
    assert script.trace == ["work", "work", "work", "fall_back"]
    state = running.client.state_at(StrictJourneys, "s")
    assert state == Journey(places=("fell",))


def test_without_a_failover_it_is_suspended_and_can_be_resumed(
    running: Running, script: Script
) -> None:
    script.fail("suspend_after", 3)
    strict = running.strict("s")
    strict.ask(StrictJourneys.start_at, "suspend_after")

    # The decorator's own policy has no failover, whatever the settings say.
    assert eventually(lambda: strict.status().suspended)
    assert "suspend_after failed 2 time(s): ValueError" in str(strict.status().reason)
    running.restart()
    strict = running.strict("s")
    assert strict.status().suspended
    strict.resume()
    assert comes_to(strict, "ended")
    assert script.trace == ["suspend_after"] * 4


def test_a_policy_may_fail_the_workflow(running: Running, script: Script) -> None:
    script.fail("fail_after", 1)
    running.strict("s").ask(StrictJourneys.start_at, "fail_after")

    assert comes_to(running.strict("s"), "failed")
    assert running.strict("s").status().reason == "no way"


@pytest.mark.parametrize(
    ("error", "reason", "attempts"),
    [(KeyError, "hopeless", 1), (ConnectionError, "no disk", 1)],
)
def test_errors_have_policies_of_their_own(
    running: Running,
    script: Script,
    error: Callable[[], BaseException],
    reason: str,
    attempts: int,
) -> None:
    script.fail("picky", 1, error)
    running.strict("s").ask(StrictJourneys.start_at, "picky")

    assert comes_to(running.strict("s"), "failed")
    assert running.strict("s").status().reason == reason
    assert script.trace.count("picky") == attempts


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_whatever_a_step_raises_is_a_failure_of_that_step(
    running: Running, script: Script, error: Callable[[], BaseException]
) -> None:
    script.fail("first", 1, error)
    script.fail("second", 1, error)
    running.journey("j").ask(Journeys.start, "rome")

    assert comes_to(running.journey("j"), "ended")


def test_a_step_that_says_nothing_fails_with_a_reason(running: Running, script: Script) -> None:
    journey = running.journey("j")
    journey.ask(Journeys.start_at, "nothing")

    assert eventually(lambda: script.trace.count("nothing") > 1)
    assert "step nothing returned None" in str(journey.status().last_error)


def test_a_step_whose_transition_can_t_be_stored_fails(running: Running, script: Script) -> None:
    journey = running.journey("j")
    journey.ask(Journeys.start_at, "unstorable")

    assert eventually(lambda: script.trace.count("unstorable") > 1)
    assert "the input of step first can't be stored" in str(journey.status().last_error)


def test_a_command_whose_step_is_none_is_an_error_of_that_command(running: Running) -> None:
    with pytest.raises(HandlerError):
        running.journey("j").ask(Journeys.start_at, "look")

    assert running.journey("j").status().status == "not-started"


def test_the_attempts_are_counted_over_a_restart(running: Running, script: Script) -> None:
    script.fail("work", 1)
    with script.held("work") as reached:
        running.strict("s").ask(StrictJourneys.start_at, "work")
        assert reached.wait(10)
    assert comes_to(running.strict("s"), "ended", "retrying", "running")
    script.fail("suspend_after", 1)
    running.strict("t").ask(StrictJourneys.start_at, "suspend_after")
    assert comes_to(running.strict("t"), "ended")
    attempts = [
        one.attempt
        for one in running.client.workflow_history(StrictJourneys, "t")
        if one.name == "suspend_after"
    ]
    assert attempts == [1, 2]


def test_a_poison_workflow_stops_no_other(running: Running, script: Script) -> None:
    script.fail("first", 100_000)
    running.journey("poison").ask(Journeys.start, "nowhere")
    assert eventually(lambda: script.trace.count("first") > 3)

    running.strict("s").ask(StrictJourneys.start_at, "work")

    assert comes_to(running.strict("s"), "ended")
    poison = running.journey("poison")
    assert poison.status().last_error == "ValueError: "
    poison.terminate("hopeless")
    assert poison.status().status == "terminated"
    attempts = script.trace.count("first")
    running.restart()
    assert running.journey("poison").status().reason == "hopeless"
    assert script.trace.count("first") <= attempts + 1


# -- timeouts ------------------------------------------------------------------------------


def test_a_step_that_takes_too_long_fails_and_its_result_is_thrown_away(
    running: Running, script: Script
) -> None:
    with script.held("slow") as reached:
        running.strict("s").ask(StrictJourneys.start_at, "slow")
        assert reached.wait(10)
        assert comes_to(running.strict("s"), "failed")
        assert running.strict("s").status().reason == "too slow"
    entries = running.client.workflow_history(StrictJourneys, "s")
    errors = [one.error for one in entries if one.name == "slow"]
    assert errors == ["Step slow took longer than 0.03 s."] * 2
    # The code that was too slow has returned by now: nothing has come of it.
    assert running.strict("s").status().status == "failed"


def test_the_code_of_a_step_can_ask_whether_anybody_waits(running: Running, script: Script) -> None:
    with script.held("slow"):
        running.strict("s").ask(StrictJourneys.start_at, "slow")
        assert comes_to(running.strict("s"), "failed")
        cancellation = script.seen[0].cancellation
        assert cancellation.wait(10)
        with pytest.raises(StepCancelledError):
            cancellation.raise_if_set()
        called: list[str] = []
        cancellation.on_cancel(lambda: called.append("late"))
        assert called == ["late"]


def test_steps_that_never_return_leave_threads_for_others(sqlite_url: str, script: Script) -> None:
    settings = Settings(database_url=sqlite_url, step_threads=2)
    runtime = Runtime(COMPONENTS, settings=settings)
    runtime.start()
    with script.held("slow"):
        for number in range(4):
            slow = runtime.client.for_workflow(StrictJourneys, f"slow-{number}")
            slow.ask(StrictJourneys.start_at, "slow")
        work = runtime.client.for_workflow(StrictJourneys, "work")
        work.ask(StrictJourneys.start_at, "work")
        assert comes_to(work, "ended")
    runtime.stop()


def test_the_whole_workflow_may_run_out_of_time(
    timed: Running, clock: ManualClock, script: Script
) -> None:
    hurried = timed.client.for_workflow(HurriedJourneys, "h")
    hurried.ask(HurriedJourneys.start)
    assert hurried.status().deadline is not None
    clock.advance(HOUR)

    assert comes_to(hurried, "ended")
    assert hurried.status().reason == "out of time"
    assert script.trace == ["last"]


def test_the_last_step_is_the_last_whatever_it_says(
    timed: Running, clock: ManualClock, script: Script
) -> None:
    hurried = timed.client.for_workflow(HurriedJourneys, "h")
    hurried.ask(HurriedJourneys.start, "go on")
    clock.advance(HOUR)

    assert comes_to(hurried, "failed")
    assert timed.client.state_at(HurriedJourneys, "h") == Journey(places=("go on", "late"))


# -- pauses --------------------------------------------------------------------------------


def test_a_pause_waits_for_a_command(running: Running) -> None:
    journey = running.journey("j")
    journey.ask(Journeys.pause, "for the boss")
    assert journey.status().status == "paused"
    assert journey.status().reason == "for the boss"
    running.restart()

    running.journey("j").ask(Journeys.start, "rome")

    assert comes_to(running.journey("j"), "ended")


@pytest.mark.parametrize("restarted", [False, True])
def test_a_pause_that_runs_out_calls_its_handler(
    timed: Running, clock: ManualClock, script: Script, *, restarted: bool
) -> None:
    timed.journey("j").ask(Journeys.pause_for, 60.0)
    if restarted:
        timed.restart()
    clock.advance(timedelta(seconds=59))
    assert timed.journey("j").status().status == "paused"
    clock.advance(timedelta(seconds=1))

    assert comes_to(timed.journey("j"), "ended")
    assert timed.journey("j").ask(Journeys.look) == Journey(places=("late",))
    assert script.trace == ["too_late"]


def test_a_pause_that_was_left_does_not_run_out(
    timed: Running, clock: ManualClock, script: Script
) -> None:
    journey = timed.journey("j")
    journey.ask(Journeys.pause_for, 60.0)
    journey.ask(Journeys.pause, "for good")
    clock.advance(HOUR)
    assert eventually(timed.runtime.is_ready)

    assert journey.status().status == "paused"
    assert journey.status().next_at is None
    assert script.trace == []


def test_a_handler_that_only_looks_leaves_the_pause_as_it_is(
    timed: Running, clock: ManualClock, script: Script
) -> None:
    timed.journey("j").ask(Journeys.look_only, 60.0)
    clock.advance(HOUR)
    assert eventually(lambda: timed.journey("j").status().next_at is None)
    timed.restart()

    assert timed.journey("j").status().status == "paused"
    assert script.trace == ["peek"]


def test_a_thousand_pauses_run_out_at_once(
    timed: Running, clock: ManualClock, script: Script
) -> None:
    for number in range(1000):
        timed.journey(f"j-{number}").ask(Journeys.pause_for, 60.0)
    timed.restart()
    clock.advance(timedelta(seconds=60))

    assert eventually(lambda: script.trace.count("too_late") == 1000, seconds=30)
    assert comes_to(timed.journey("j-999"), "ended")


# -- steering from outside -----------------------------------------------------------------


def test_suspending_abandons_the_step_and_resuming_runs_it_again(
    on_both: Running, script: Script
) -> None:
    journey = on_both.journey("j")
    with script.held("first") as reached:
        journey.ask(Journeys.start, "rome")
        assert reached.wait(10)
        journey.suspend("the bank is closed")
        journey.suspend("again")
    status = journey.status()
    assert (status.suspended, status.reason) == (True, "the bank is closed")
    with pytest.raises(WorkflowSuspendedError, match="the bank is closed"):
        journey.ask(Journeys.stop)
    on_both.restart()

    journey = on_both.journey("j")
    assert journey.status().suspended
    journey.resume()
    journey.resume()

    assert comes_to(journey, "ended")
    assert on_both.total("rome") == 2


def test_a_paused_workflow_is_paused_after_it_was_resumed(running: Running) -> None:
    journey = running.journey("j")
    journey.ask(Journeys.pause, "for the boss")
    journey.suspend()
    journey.resume()

    assert journey.status().status == "paused"
    assert not journey.status().suspended
    assert journey.status().reason == "for the boss"


def test_a_pause_runs_out_when_it_is_resumed(
    timed: Running, clock: ManualClock, script: Script
) -> None:
    journey = timed.journey("j")
    journey.ask(Journeys.pause_for, 60.0)
    journey.suspend()
    clock.advance(HOUR)
    assert journey.status().status == "paused"
    journey.resume()

    assert comes_to(journey, "ended")
    assert script.trace == ["too_late"]


def test_suspending_what_was_never_started_does_nothing(running: Running) -> None:
    running.journey("j").suspend("why")
    running.journey("j").resume()

    assert not running.journey("j").status().suspended
    assert running.client.workflow_history(Journeys, "j") == []


def test_terminating_throws_the_running_step_away(running: Running, script: Script) -> None:
    journey = running.journey("j")
    with script.held("first") as reached:
        journey.ask(Journeys.start, "rome")
        assert reached.wait(10)
        journey.terminate("stop it")
        journey.terminate("another reason")
    assert journey.status().status == "terminated"
    assert journey.status().reason == "stop it"
    assert journey.ask(Journeys.look) == Journey(places=("start",))
    journey.resume()
    journey.suspend()
    assert journey.status().status == "terminated"


def test_terminating_an_id_that_was_never_started_poisons_it(running: Running) -> None:
    running.journey("j").terminate()

    with pytest.raises(TransitionNotAllowedError):
        running.journey("j").ask(Journeys.start, "rome")


@pytest.mark.parametrize("reason", ["", "  ", "x" * 1001])
def test_a_reason_has_to_say_something(running: Running, reason: str) -> None:
    journey = running.journey("j")
    with pytest.raises(InvalidCallError, match="a reason is text"):
        journey.terminate(reason)
    with pytest.raises(HandlerError):
        journey.ask(Journeys.pause, reason)


# -- branches ------------------------------------------------------------------------------


def test_branches_run_beside_each_other_and_are_joined_in_order(
    running: Running, script: Script
) -> None:
    places = [f"p{number}" for number in range(7)]
    running.journey("j").ask(Journeys.visit_all, places, 3)

    assert comes_to(running.journey("j"), "ended")
    assert running.journey("j").ask(Journeys.look).places == tuple(p.upper() for p in places)
    assert script.trace.count("collect") == 1


def test_no_more_branches_run_than_were_asked_for(running: Running, script: Script) -> None:
    with script.held("visit"):
        running.journey("j").ask(Journeys.visit_all, ["a", "b", "c", "d"], 2)
        assert eventually(lambda: len(script.trace) == 2)
        running.journey("j").status()
        assert len(script.trace) == 2

    assert comes_to(running.journey("j"), "ended")


def test_there_may_be_no_branches(running: Running, script: Script) -> None:
    running.journey("j").ask(Journeys.visit_all, [], 2)

    assert comes_to(running.journey("j"), "ended")
    assert script.trace == ["collect"]


def test_branches_of_several_kinds(running: Running, script: Script) -> None:
    running.journey("j").ask(Journeys.both)

    assert comes_to(running.journey("j"), "ended")
    assert script.seen[-1] == ["A", 1]


def test_only_the_branch_that_failed_runs_again(running: Running, script: Script) -> None:
    script.fail("visited b", 2)
    running.journey("j").ask(Journeys.visit_all, ["a", "b", "c"], 3)

    assert comes_to(running.journey("j"), "ended")
    assert sorted(script.seen) == ["a", "b", "b", "b", "c"]
    assert running.total("visit-b") == 1


def test_branches_that_are_done_do_not_run_again_after_a_restart(
    on_both: Running, script: Script
) -> None:
    with script.held("visited b") as reached:
        on_both.journey("j").ask(Journeys.visit_all, ["a", "b", "c"], 3)
        assert reached.wait(10)
        assert eventually(lambda: history_of(on_both, "j").count("branch") == 2)
        on_both.runtime._engine.stopping = True
    on_both.restart()

    assert comes_to(on_both.journey("j"), "ended")
    assert script.seen.count("a") == script.seen.count("c") == 1
    assert [on_both.total(f"visit-{one}") for one in "abc"] == [1, 1, 1]


def history_of(running: Running, name: str) -> list[str]:
    return [one.cause for one in running.client.workflow_history(Journeys, name)]


# -- children ------------------------------------------------------------------------------


def test_a_parent_waits_for_its_children(running: Running, script: Script) -> None:
    running.journey("parent").ask(Journeys.send, ["kid-1", "kid-2"])

    assert comes_to(running.journey("parent"), "ended")
    outcomes = script.seen[-1]
    assert [(one.workflow_id, one.status) for one in outcomes] == [
        ("kid-1", "ended"),
        ("kid-2", "ended"),
    ]
    assert running.journey("kid-1").ask(Journeys.look).places == ("start", "kid-1", "end")


def test_a_parent_waits_over_a_restart(running: Running, script: Script) -> None:
    with script.held("first") as reached:
        running.journey("parent").ask(Journeys.send, ["kid"])
        assert reached.wait(10)
        running.runtime._engine.stopping = True
    running.restart()

    assert comes_to(running.journey("parent"), "ended")
    assert script.seen[-1][0].status == "ended"
    assert running.total("kid") == 2


def test_children_end_with_their_parent(on_both: Running, script: Script) -> None:
    with script.held("first") as reached:
        on_both.journey("parent").ask(Journeys.send, ["kid-1", "kid-2"])
        assert reached.wait(10)
        on_both.journey("parent").terminate("stop it")

        for kid in ("kid-1", "kid-2"):
            assert comes_to(on_both.journey(kid), "terminated")
            assert "parent journeys/parent" in str(on_both.journey(kid).status().reason)
    assert eventually(lambda: "children" in history_of(on_both, "parent"))


# -- compensation --------------------------------------------------------------------------


def test_what_was_done_is_taken_back_in_reverse(running: Running, script: Script) -> None:
    running.journey("j").ask(Journeys.book, 3)

    assert comes_to(running.journey("j"), "failed")
    assert script.trace == ["reserve 1", "reserve 2", "reserve 3", "cancel 2", "cancel 1"]
    reason = "step reserve failed: ValueError: no room 3"
    assert running.journey("j").status().reason == reason
    assert script.seen == [reason, reason]


def test_what_succeeds_is_not_taken_back(running: Running, script: Script) -> None:
    running.journey("j").ask(Journeys.book, 0)

    assert comes_to(running.journey("j"), "ended")
    assert script.trace == ["reserve 1", "reserve 2", "reserve 3"]


def test_a_compensation_is_run_again_until_it_succeeds(running: Running, script: Script) -> None:
    script.fail("cancel 1", 3)
    running.journey("j").ask(Journeys.book, 2)

    assert comes_to(running.journey("j"), "failed")
    assert script.trace.count("cancel 1") == 4


# -- history -------------------------------------------------------------------------------


def test_the_history_tells_what_happened(on_both: Running, script: Script) -> None:
    script.fail("second", 1)
    on_both.journey("j").ask(Journeys.start, "rome")
    assert comes_to(on_both.journey("j"), "ended")

    entries = on_both.client.workflow_history(Journeys, "j")

    told = [(one.cause, one.name, one.status, one.steps, one.attempt) for one in entries]
    assert told == [
        ("command", "start", "running", ("first",), None),
        ("step", "first", "running", ("second",), 1),
        ("attempt", "second", "retrying", ("second",), 1),
        ("step", "second", "ended", (), 2),
    ]
    assert entries[2].error == "ValueError: "
    assert all(one.duration is not None for one in entries[1:])


def test_the_history_is_kept_for_as_long_as_was_asked_for(
    timed: Running, clock: ManualClock
) -> None:
    journey = timed.journey("j")
    for place in "abc":
        journey.ask(Journeys.note, place)
    clock.advance(timedelta(days=31))
    journey.ask(Journeys.note, "d")

    # The last of the old ones was only replaced just now.
    assert eventually(lambda: len(timed.client.workflow_history(Journeys, "j")) == 2)
    assert journey.ask(Journeys.look).places == ("a", "b", "c", "d")


# -- stopping and starting -----------------------------------------------------------------


def test_a_stop_waits_for_steps_and_starts_no_more(running: Running, script: Script) -> None:
    with script.held("first") as reached:
        running.journey("j").ask(Journeys.start, "rome")
        assert reached.wait(10)
        stopping = threading.Thread(target=running.runtime.stop)
        stopping.start()
        assert eventually(lambda: running.runtime._engine.stopping)
    stopping.join(20)
    assert "second" not in script.trace
    running.start()

    assert comes_to(running.journey("j"), "ended")
    assert running.total("rome") == 2


def test_calls_of_a_step_are_traced_to_it(running: Running, script: Script) -> None:
    journey = running.journey("j").with_options(principal="ada", correlation_id="trace-1")
    journey.ask(Journeys.start, "rome")
    assert comes_to(running.journey("j"), "ended")

    reader = running.runtime._store.journal
    from greenroom.ids import EntityRef

    metadata = reader.records(EntityRef("counter", "rome"))[0].metadata or b""
    assert b'"correlation":"trace-1"' in metadata
    assert b'"principal":"ada"' in metadata
    assert b'"causation":"journeys/j@1"' in metadata


def test_a_step_can_t_call_its_own_workflow(running: Running, script: Script) -> None:
    """It would wait for itself."""
    errors: list[GreenroomError] = []

    def call_myself() -> Exception:
        try:
            running.journey("j").ask(Journeys.note, "x")
        except GreenroomError as error:
            errors.append(error)
        return ValueError("again")

    script.errors["first"] = []
    original = script.enter

    def enter(name: str, *seen: Any) -> None:
        original(name, *seen)
        if name == "first" and not errors:
            raise call_myself()

    script.enter = enter  # type: ignore[method-assign]
    running.journey("j").ask(Journeys.start, "rome")

    assert comes_to(running.journey("j"), "ended")
    assert [type(one).__name__ for one in errors] == ["ReentrantCallError"]
