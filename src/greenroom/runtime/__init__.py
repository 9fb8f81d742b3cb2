"""The actors: carries out what components declare.

From the inside out: `_future`, `_dispatch` and `_actor` make pykka actors that hold no thread;
`_entity_actor` is one live instance, `_directory` knows them all, `_writer` commits for them
together; `_owner` and `_peers` share the slices with other processes; `_client` is the way in.
"""

from greenroom.persistence import InstanceSummary
from greenroom.runtime._call_options import Retries
from greenroom.runtime._calls import Answer, CallRequest, call_chain
from greenroom.runtime._client import (
    AsyncComponentClient,
    AsyncEntityClient,
    AsyncWorkflowClient,
    ComponentClient,
    DetailedReply,
    EntityClient,
    WorkflowClient,
)
from greenroom.runtime._dependencies import DependencyProvider, resolve_constructor
from greenroom.runtime._host import codec_for
from greenroom.runtime._look import StoredEvent
from greenroom.runtime._reader import StoredReader, reading
from greenroom.runtime._runtime import Runtime
from greenroom.runtime._steering import steering_token
from greenroom.runtime._step_run import StepRun
from greenroom.runtime._timers import (
    AsyncTimerScheduler,
    TimedActionClient,
    TimerScheduler,
)

__all__ = [
    "Answer",
    "AsyncComponentClient",
    "AsyncEntityClient",
    "AsyncTimerScheduler",
    "AsyncWorkflowClient",
    "CallRequest",
    "ComponentClient",
    "DependencyProvider",
    "DetailedReply",
    "EntityClient",
    "InstanceSummary",
    "Retries",
    "Runtime",
    "StepRun",
    "StoredEvent",
    "StoredReader",
    "TimedActionClient",
    "TimerScheduler",
    "WorkflowClient",
    "call_chain",
    "codec_for",
    "reading",
    "resolve_constructor",
    "steering_token",
]
