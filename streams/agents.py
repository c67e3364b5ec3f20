"""The agents: one for each inbound topic, found by Faust through the `autodiscover` of `streams.app`.

An agent has no logic. It passes each fetch (an event's value is a `Fetch`: the records read from one partition) to the
engine, which merges the topics of a partition by time, applies the rules and commits. `croesus.prices` has no
agent: every worker reads all of it before anything else.
"""

from faust import Stream

from streams.app import app
from streams.engine.ports import Fetch


@app.agent(app.topic("croesus.accounts"))
async def croesus_accounts(stream: Stream[Fetch]) -> None:
    """Read balances and suspensions from Croesus (C3, I7, B22)."""
    async for event in stream.noack().events():
        app.engine.feed(event.message)


@app.agent(app.topic("user.commands"))
async def user_commands(stream: Stream[Fetch]) -> None:
    """Read users' commands: create, deploy, start, stop, destroy (C1, C2)."""
    async for event in stream.noack().events():
        app.engine.feed(event.message)


@app.agent(app.topic("operator.commands"))
async def operator_commands(stream: Stream[Fetch]) -> None:
    """Read operators' commands, which credit windows (B13)."""
    async for event in stream.noack().events():
        app.engine.feed(event.message)


@app.agent(app.topic("inference.requests"))
async def inference_requests(stream: Stream[Fetch]) -> None:
    """Read inference requests, which restart idle timeouts or resume deployments (P6, P7)."""
    async for event in stream.noack().events():
        app.engine.feed(event.message)


@app.agent(app.topic("execlet.progress"))
async def execlet_progress(stream: Stream[Fetch]) -> None:
    """Read callbacks about the start and the end of replicas (R2, R3)."""
    async for event in stream.noack().events():
        app.engine.feed(event.message)


@app.agent(app.topic("host.reports"))
async def host_reports(stream: Stream[Fetch]) -> None:
    """Read hosts' reports about the workloads of instances (I1)."""
    async for event in stream.noack().events():
        app.engine.feed(event.message)


@app.agent(app.topic("execlet.heartbeats"))
async def execlet_heartbeats(stream: Stream[Fetch]) -> None:
    """Read heartbeats of replicas, which bound what is billed (B2, B3)."""
    async for event in stream.noack().events():
        app.engine.feed(event.message)


@app.agent(app.topic("obol.clock"))
async def obol_clock(stream: Stream[Fetch]) -> None:
    """Read ticks, one per minute and partition: what is due is billed at a tick (B4)."""
    async for event in stream.noack().events():
        app.engine.feed(event.message)
