"""A support agent for a small shop: three Python tools over its order book, and a clock from an MCP server.

handrail call examples/orders/app.py lookup_order order_id=order_1042
handrail run examples/orders/app.py -m "Where is order_1042?"
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from handrail import Agent, InMemoryMCPServerRegistry, ToolError, mcp_tools, tool

SEED = Path(__file__).with_name("orders.sql").read_text(encoding="utf-8")


class Order(TypedDict):
    """One order."""

    order_id: str
    customer: str
    item: str
    quantity: int
    placed: str
    status: str
    carrier: str | None
    expected: str | None


class RefundPolicy(TypedDict):
    """What the shop promises about refunds."""

    days: int
    text: str


def query(sql: str, *values: str) -> list[dict[str, Any]]:
    """Read from the order book. A real shop would open its database here; this one is small enough to build anew."""
    with closing(sqlite3.connect(":memory:")) as book:
        book.executescript(SEED)
        book.row_factory = sqlite3.Row
        return [dict(row) for row in book.execute(sql, values)]


@tool(effects=["read"])
def lookup_order(order_id: Annotated[str, Field(pattern=r"^order_\d+$")]) -> Order:
    """Look up the fulfilment status of one order.

    Args:
        order_id: Order ID in the form order_1234.
    """
    found = query("SELECT * FROM orders WHERE order_id = ?", order_id)
    if not found:
        raise ToolError(f"there is no order {order_id}; list_orders finds the orders of a customer")
    return Order(**found[0])


@tool(effects=["read"])
def list_orders(customer: str) -> list[Order]:
    """List the orders of one customer.

    Args:
        customer: The customer's first name.
    """
    return [Order(**row) for row in query("SELECT * FROM orders WHERE customer = ? COLLATE NOCASE", customer)]


@tool(effects=["read"])
def get_refund_policy() -> RefundPolicy:
    """Get the shop's refund policy."""
    return RefundPolicy(**query("SELECT days, text FROM policies WHERE topic = 'refund'")[0])


registry = InMemoryMCPServerRegistry(
    {
        "id": "time",
        "name": "Clock",
        "transport": {"type": "stdio", "command": "python", "args": ["-m", "mcp_server_time"]},
    }
)

support = Agent(
    "local",
    id="support",
    instructions="You answer questions about orders of a small shop. Look things up; never guess.",
    tools=[
        lookup_order,
        list_orders,
        get_refund_policy,
        mcp_tools("time", only=["get_current_time", "convert_time"]),
    ],
)
