"""Who decides: standing rules, the tool itself, the policy and a person; the most severe answer holds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from handrail import ApprovalRequest, CallRequest, Decision, Tool, ToolContext, Toolset, tool
from handrail.events import PolicyDecided, ToolCallStarted
from handrail.policy import ALLOW, AllowAll, Policy, Verdict, is_embedded, reads_only, standing_rules, stricter
from handrail.provenance import call_key
from handrail.tools import RemoteResult
from support.gate import Gate
from support.waiting import settled


class Says:
    """A policy that always says the same, and remembers what it was asked.

    Args:
        decision: What it says; an exception is raised instead.
    """

    def __init__(self, decision: Any) -> None:
        self.decision = decision
        self.asked: list[CallRequest] = []

    async def decide(self, request: CallRequest) -> Decision:
        """Say it."""
        self.asked.append(request)
        if isinstance(self.decision, Exception):
            raise self.decision
        return self.decision


class Answers:
    """A person, or a predicate, that always gives the same answer.

    Args:
        answer: The answer.
    """

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __call__(self, question: object) -> Any:
        """Give it."""
        return self.answer


class Ledgered:
    """A tool that writes down that it ran."""

    def __init__(self) -> None:
        self.ran: list[int] = []

    def tool(self, **options: Any) -> Tool:
        """Make the tool."""

        async def pay(amount: int) -> int:
            """Pay an amount."""
            self.ran.append(amount)
            return amount

        return tool(pay, **options)


@pytest.fixture
def book() -> Ledgered:
    """What ran."""
    return Ledgered()


def _decided(gate: Gate) -> list[tuple[str, str]]:
    return [(event.verdict, event.rule) for event in gate.events if isinstance(event, PolicyDecided)]


# The policy


async def test_the_default_policy_allows_and_the_event_says_so(book: Ledgered) -> None:
    """Without a policy every call runs, and the event of its start names the rule."""
    gate = Gate(book.tool())
    assert (await gate.one("pay", {"amount": 1})).value == 1
    started = gate.events[0]
    assert isinstance(started, ToolCallStarted)
    assert started.rule == "default"
    assert _decided(gate) == []
    assert await AllowAll().decide(None) is ALLOW  # pyright: ignore[reportArgumentType]


async def test_a_policy_sees_the_checked_call_and_what_the_run_has_seen(book: Ledgered) -> None:
    """It is asked once for each call, with the validated arguments, who asks, and the labels so far."""
    policy = Says(Decision("allow", "small-amounts"))
    gate = Gate(book.tool(), policy=policy, agent_id="clerk", model="openai:x")
    await gate.one("pay", '{"amount": 1}', "a")
    await gate.one("pay", {"amount": 2}, "b")
    await gate.one("pay", {"amount": "x"}, "c")
    assert [request.call_id for request in policy.asked] == ["a", "b"]
    request = policy.asked[1]
    assert (request.tool.name, request.run_id, request.agent_id) == ("pay", "run_1", "clerk")
    assert (request.model, dict(request.arguments)) == ("openai:x", {"amount": 2})
    assert request.ledger.get(call_key("a")) is not None
    with pytest.raises(TypeError):
        request.arguments["amount"] = 3  # pyright: ignore[reportIndexIssue]
    assert [event.rule for event in gate.events if isinstance(event, ToolCallStarted)] == ["small-amounts"] * 2


async def test_a_denied_call_does_not_run_and_the_model_learns_why(book: Ledgered) -> None:
    """The reason says what would make it legal; another try with other arguments makes no sense by itself."""
    gate = Gate(book.tool(), policy=Says(Decision("deny", "no-money", "refunds need a ticket number")))
    result = await gate.one("pay", {"amount": 1}, "a")
    assert (result.code, result.retry, book.ran) == ("denied", False, [])
    assert result.wire == "the call of pay was refused: refunds need a ticket number"
    assert gate.kinds(call_id="a") == ["policy_decided", "tool_call_finished"]
    assert _decided(gate) == [("deny", "no-money")]


async def test_a_denial_without_a_reason_names_its_rule(book: Ledgered) -> None:
    """The model always learns something to go by."""
    result = await Gate(book.tool(), policy=Says(Decision("deny", "no-money"))).one("pay", {"amount": 1})
    assert result.wire == "the call of pay was refused: no-money"


@pytest.mark.parametrize("answer", [RuntimeError("secret"), None, True, "allow", Decision("sure"), ("allow",)])  # pyright: ignore[reportArgumentType]
async def test_a_policy_that_cannot_decide_denies(
    book: Ledgered, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception, or anything that is no decision, is never taken for a yes; the developer finds it in the log."""
    gate = Gate(book.tool(), policy=Says(answer))
    result = await gate.one("pay", {"amount": 1})
    assert (result.code, book.ran) == ("denied", [])
    assert "could not decide" in result.wire
    assert "secret" not in result.wire
    assert "the policy" in caplog.text
    assert _decided(gate) == [("deny", "policy-failed")]


async def test_a_policy_that_is_not_async_denies(book: Ledgered) -> None:
    """A ``decide`` that forgot its ``async`` does not open the gate."""

    class Sync:
        def decide(self, request: CallRequest) -> Decision:
            return ALLOW

    policy: Any = Sync()
    assert (await Gate(book.tool(), policy=policy).one("pay", {"amount": 1})).code == "denied"
    assert book.ran == []


async def test_calls_of_one_turn_are_decided_side_by_side(book: Ledgered) -> None:
    """A slow decision on one call does not hold up another."""
    go = asyncio.Event()

    class Slow:
        async def decide(self, request: CallRequest) -> Decision:
            if request.arguments["amount"] == 1:
                await go.wait()
            else:
                go.set()
            return ALLOW

    results = await asyncio.wait_for(
        Gate(book.tool(), policy=Slow()).all(("pay", {"amount": 1}), ("pay", {"amount": 2})), 5
    )
    assert [result.value for result in results] == [1, 2]
    assert book.ran == [2, 1]


# A person


async def test_where_nobody_can_be_asked_the_call_is_refused(book: Ledgered) -> None:
    """A call that needs approval does not run on its own."""
    gate = Gate(book.tool(needs_approval=True))
    result = await gate.one("pay", {"amount": 1}, "a")
    assert (result.code, result.retry, book.ran) == ("needs_approval", False, [])
    assert "needs a person's approval" in result.wire
    assert _decided(gate) == [("ask", "needs-approval")]


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_a_person_sees_the_exact_call_and_decides(book: Ledgered, is_async: bool) -> None:
    """The question shows what would run; exactly True lets it run, and both are events."""
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> Any:
        asked.append(request)
        answer = request.arguments["amount"] < 10

        async def later() -> bool:
            await settled()
            return answer

        return later() if is_async else answer

    gate = Gate(book.tool(needs_approval=True), approve=approve)
    yes, no = await gate.all(("pay", '{"amount": 1}', "a"), ("pay", {"amount": 50}, "b"))
    assert (yes.value, no.code, book.ran) == (1, "denied", [1])
    assert "a person rejected it" in no.wire
    assert [(one.tool, dict(one.arguments), one.call_id) for one in asked] == [
        ("pay", {"amount": 1}, "a"),
        ("pay", {"amount": 50}, "b"),
    ]
    assert asked[0] == ApprovalRequest(
        "pay", None, {"amount": 1}, "a", "run_1", "needs-approval", "pay needs a person's approval"
    )
    assert gate.kinds(call_id="a") == ["policy_decided"] * 2 + ["tool_call_started", "tool_call_finished"]
    assert gate.kinds(call_id="b") == ["policy_decided"] * 2 + ["tool_call_finished"]
    started = next(event for event in gate.events if isinstance(event, ToolCallStarted))
    assert started.rule == "approved:needs-approval"


@pytest.mark.parametrize("answer", [1, "yes", "True", None, False, 0, [True], object()])
async def test_only_true_is_a_yes(book: Ledgered, answer: Any) -> None:
    """Anything that is merely true-like refuses."""
    result = await Gate(book.tool(needs_approval=True), approve=Answers(answer)).one("pay", {"amount": 1})
    assert (result.code, book.ran) == ("denied", [])


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_a_question_that_fails_refuses(book: Ledgered, is_async: bool, caplog: pytest.LogCaptureFixture) -> None:
    """When the way to the person is broken, the call is refused, not failed: its body never ran."""

    def approve(request: ApprovalRequest) -> bool:
        raise ConnectionError("pager secret")

    async def approve_later(request: ApprovalRequest) -> bool:
        return approve(request)

    gate = Gate(book.tool(needs_approval=True, taints=True), approve=approve_later if is_async else approve)
    result = await gate.one("pay", {"amount": 1})
    assert (result.code, book.ran, result.label.tainted) == ("denied", [], False)
    assert "nobody could be asked" in result.wire
    assert "secret" not in result.wire
    assert "pager secret" in caplog.text


async def test_a_policy_may_have_a_person_asked(book: Ledgered) -> None:
    """``ask`` goes to the person, with the policy's rule and reason."""
    asked: list[tuple[str, str]] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append((request.rule, request.reason))
        return True

    policy = Says(Decision("ask", "large", "more than 100"))
    assert (await Gate(book.tool(), policy=policy, approve=approve).one("pay", {"amount": 500})).value == 500
    assert asked == [("large", "more than 100")]
    refused = await Gate(book.tool(), policy=policy).one("pay", {"amount": 500})
    assert (refused.code, refused.wire) == ("needs_approval", "the call of pay was refused: more than 100")


async def test_a_yes_does_not_open_what_the_policy_denies(book: Ledgered) -> None:
    """A person is not asked about what is denied anyway."""
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    gate = Gate(book.tool(needs_approval=True), policy=Says(Decision("deny", "closed")), approve=approve)
    assert (await gate.one("pay", {"amount": 1})).code == "denied"
    assert (asked, book.ran) == ([], [])
    assert _decided(gate) == [("deny", "closed")]


async def test_a_policy_that_allows_does_not_take_the_tool_s_own_question_away(book: Ledgered) -> None:
    """A tool that needs approval needs it, whatever the policy thinks."""
    gate = Gate(book.tool(needs_approval=True), policy=Says(Decision("allow")))
    assert (await gate.one("pay", {"amount": 1})).code == "needs_approval"


async def test_an_approval_for_one_server_s_tool_says_whose_it_is() -> None:
    """APP-07: the question names the server, so that one server's tool is not mistaken for another's."""
    asked: list[ApprovalRequest] = []

    async def send(arguments: dict[str, Any], context: ToolContext) -> RemoteResult:
        return RemoteResult()

    remote = Tool.remote(name="delete_file", description="D.", parameters={"type": "object"}, server="b", send=send)

    async def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        return False

    toolset = Toolset({"delete_file": remote})
    await toolset.call("delete_file", {}, policy=Says(Decision("ask")), approve=approve)
    assert [request.server for request in asked] == ["b"]


# The tool's own wish


@pytest.mark.parametrize(
    ("raw", "needed"),
    [
        ('{"amount": 5}', False), ('{"amount": 500}', True), ({"amount": 5}, False), ('{"amount": 5', True), ("", True),
        ("null", True), ("[]", True), ('{"amount": NaN}', True), ('{"amount": "9e9"}', True),
        ('{"amount": true}', True), ('{"amount": 5, "amount": 500}', True), ('{"amount": 5, "note": "x"}', True),
    ],
)  # fmt: skip
def test_a_predicate_over_the_arguments_fails_closed(raw: Any, needed: bool) -> None:
    """APP-01: what cannot be read needs approval, like what the predicate says."""

    def pay(amount: float) -> float:
        """Pay."""
        return amount

    def is_large(arguments: Mapping[str, Any]) -> bool:
        return arguments["amount"] > 100

    made = tool(pay, needs_approval=is_large)
    assert made.approval_needed(raw) is needed


@pytest.mark.parametrize("answer", [None, 0, "", "no", 1, KeyError("x")])
def test_a_predicate_that_answers_unclearly_means_yes(book: Ledgered, answer: Any) -> None:
    """Only a clear False goes without approval."""

    def predicate(arguments: Mapping[str, Any]) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert book.tool(needs_approval=predicate).approval_needed({"amount": 1}) is True
    assert book.tool(needs_approval=Answers(False)).approval_needed({"amount": 1}) is False
    assert book.tool(needs_approval=True).approval_needed("nonsense") is True
    assert book.tool().approval_needed("nonsense") is False


async def test_a_predicate_is_asked_once_for_a_call(book: Ledgered) -> None:
    """APP-06: once a person has decided, the predicate is not asked again."""
    asked: list[dict[str, Any]] = []

    def predicate(arguments: Mapping[str, Any]) -> bool:
        asked.append(dict(arguments))
        return len(asked) == 1

    gate = Gate(book.tool(needs_approval=predicate), approve=Answers(True))
    assert (await gate.one("pay", {"amount": 7})).value == 7
    assert asked == [{"amount": 7}]


# The standing rule for the embedded model


async def test_the_embedded_model_changes_nothing_without_a_person(book: Ledgered) -> None:
    """It picks wrongly too often: what is not known to only read waits for a yes, whatever the policy says."""

    @tool(effects=["read"])
    async def pay_slip() -> str:
        """Read the pay slip."""
        return "slip"

    gate = Gate(book.tool(), pay_slip, model="local", policy=Says(ALLOW))
    refused, read = await gate.all(("pay", {"amount": 1}), ("pay_slip",))
    assert (refused.code, book.ran) == ("needs_approval", [])
    assert "embedded model" in refused.wire
    assert read.value == "slip"
    approved = Gate(book.tool(), model="local", approve=Answers(True))
    assert (await approved.one("pay", {"amount": 2})).value == 2
    assert _decided(approved) == [("ask", "local-model-write"), ("allow", "approved:local-model-write")]
    assert (await Gate(book.tool(), model="openai:x").one("pay", {"amount": 3})).value == 3
    assert (await Gate(book.tool()).one("pay", {"amount": 4})).value == 4


@pytest.mark.parametrize(
    ("model", "embedded"),
    [
        (None, False), ("", False), ("local", True), ("gpt-local", False), ("local:x", False), ("openai:local", False),
        ("fallback:gpt-5,local", True), ("fallback:local,gpt-5", True), ("fallback:fallback:a,local,b", True),
        ("fallback:gpt-5,claude", False), ("fallback:localhost,gpt", False),
    ],
)  # fmt: skip
async def test_a_chain_that_may_fall_back_to_the_embedded_model_counts_as_it(
    book: Ledgered, model: str | None, embedded: bool
) -> None:
    """Wrapping the embedded model into a chain of models does not lift the rule."""
    assert is_embedded(model) is embedded
    assert ((await Gate(book.tool(), model=model).one("pay", {"amount": 1})).code == "needs_approval") is embedded


@pytest.mark.parametrize(
    ("name", "reads"),
    [
        ("lookup_order", True), ("get_current_time", True), ("convert_time", True), ("listOrders", True),
        ("Search", True), ("find-flights", True), ("getHTML", True), ("check_stock", True),
        ("find_or_create", False), ("get_and_delete_user", False), ("fetchThenSend", False), ("check_out", False),
        ("delete_order", False), ("update", False), ("issue_refund", False), ("resolve_ticket", False),
        ("order", False), ("gettysburg", False), ("_x", False), ("1", False), ("settle", False), ("ping_team", False),
    ],
)  # fmt: skip
def test_reading_is_known_by_the_verb(name: str, reads: bool) -> None:
    """Where nobody said what a tool does, its name has to speak of nothing but reading."""

    async def body() -> None:
        """Do it."""

    assert reads_only(tool(body, name=name)) is reads


@pytest.mark.parametrize(
    ("effects", "reads"), [(["read"], True), ([], True), (["read", "egress"], False), (["write"], False)]
)
def test_what_the_author_says_of_the_effects_counts_more_than_the_name(effects: list[str], reads: bool) -> None:
    """A tool that says that it writes is not made harmless by its name, and the other way round."""

    async def get_or_delete() -> None:
        """Do it."""

    assert reads_only(tool(get_or_delete, effects=effects)) is reads
    assert reads_only(tool(get_or_delete, name="get_it", effects=effects)) is reads


def test_what_a_server_says_of_its_effects_does_not_count() -> None:
    """A server's hints are for people to read; they open nothing."""

    async def send(arguments: dict[str, Any], context: ToolContext) -> RemoteResult:
        return RemoteResult()

    remote = Tool.remote(
        name="wipe", description="W.", parameters={"type": "object"}, server="s", send=send,
        annotations={"readOnlyHint": True},
    )  # fmt: skip
    assert not reads_only(remote)
    assert standing_rules(remote, "local") is not None
    assert standing_rules(remote, "openai:x") is None
    assert not reads_only(remote.rename("get_wiped"))


def test_the_more_severe_decision_holds() -> None:
    """Deny beats ask, ask beats allow, and of two alike the first is kept."""
    order: list[Verdict] = ["allow", "ask", "deny"]
    for low, first in enumerate(order):
        for high, second in enumerate(order):
            one, two = Decision(first, "one"), Decision(second, "two")
            assert stricter(one, two) is (two if high > low else one)


def test_any_object_with_decide_is_a_policy(book: Ledgered) -> None:
    """A policy is told by what it does, not by what it inherits."""
    policy: Policy = Says(ALLOW)
    assert policy
