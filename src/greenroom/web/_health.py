"""Whether the process lives, and whether it can be sent work."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fastapi import APIRouter
from fastapi.responses import JSONResponse

if TYPE_CHECKING:
    from greenroom.runtime import Runtime


def health_router(runtime: Runtime) -> APIRouter:
    """`/health/live` and `/health/ready`, for whoever restarts or routes."""
    router = APIRouter(prefix="/health", tags=["health"])

    @router.get("/live")
    async def live() -> dict[str, str]:
        """The process answers. A failure here means: restart it."""
        return {"status": "live"}

    @router.get("/ready", responses={503: {"description": "Not ready; send nothing here yet."}})
    async def ready() -> JSONResponse:
        """Recovered, owning its slices, with a database. A failure means: send no work here."""
        # Off the loop, since it asks the database.
        health = await asyncio.to_thread(runtime.health)
        is_ready = runtime.is_ready() and health.get("database", "ok") == "ok"
        return JSONResponse(health, 200 if is_ready else 503)

    return router
