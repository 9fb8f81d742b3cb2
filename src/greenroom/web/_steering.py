"""Suspends, resumes and terminates workflows, for the command line and whoever operates a service.

What is asked for has to come with the token that is made of the database's secret, so these
routes give nobody a power who had it not before.
"""

from __future__ import annotations

import hmac
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Depends, HTTPException
from pydantic import BaseModel
from starlette.requests import Request

from greenroom.errors import InvalidCallError, UnknownComponentError
from greenroom.runtime import steering_token

if TYPE_CHECKING:
    from greenroom.runtime import AsyncWorkflowClient, Runtime

STEERING_PATH: Final = "/greenroom/workflows"
STEERING_PATHS: Final = tuple(
    f"{STEERING_PATH}/{verb}" for verb in ("suspend", "resume", "terminate")
)


class Steering(BaseModel):
    """Which workflow, and why."""

    component: str
    instance: str
    reason: str | None = None


def steering_router(runtime: Runtime) -> APIRouter:
    """`POST /greenroom/workflows/suspend`, `resume` and `terminate`; each answers the status."""

    async def check(request: Request) -> None:
        token = steering_token(runtime.secret)
        given = request.headers.get("authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            raise HTTPException(
                403,
                "Workflows are steered by whoever can read the service's database. Use: "
                "greenroom workflow suspend|resume|terminate SERVICE COMPONENT/INSTANCE",
            )

    router = APIRouter(prefix=STEERING_PATH, dependencies=[Depends(check)], include_in_schema=False)

    @router.post("/suspend")
    async def suspend(named: Steering) -> dict[str, Any]:
        workflow = _find(runtime, named)
        await workflow.suspend(named.reason)
        return asdict(await workflow.status())

    @router.post("/resume")
    async def resume(named: Steering) -> dict[str, Any]:
        workflow = _find(runtime, named)
        await workflow.resume()
        return asdict(await workflow.status())

    @router.post("/terminate")
    async def terminate(named: Steering) -> dict[str, Any]:
        workflow = _find(runtime, named)
        await workflow.terminate(named.reason)
        return asdict(await workflow.status())

    return router


def _find(runtime: Runtime, named: Steering) -> AsyncWorkflowClient[Any]:
    definition = runtime.definitions.get(named.component)
    if definition is None:
        raise UnknownComponentError(named.component, sorted(runtime.definitions))
    if definition.kind != "workflow":
        raise InvalidCallError(
            f"{named.component!r} is no workflow, but of kind {definition.kind}."
        )
    return runtime.async_client.for_workflow(definition.cls, named.instance)
