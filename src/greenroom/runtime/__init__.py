"""The actors: carries out what components declare.

From the inside out:

- `_future`, `_dispatch` and `_actor` make pykka actors that hold no thread; `_directory` knows
  them all.
- `_entity_actor` is one live instance, `_host` what the instances of a component share;
  `_event_sourced_actor` and `_key_value_actor` are its kinds, `_recovery` reads one back.
- `_writer` commits for them together, `_settling` and `_failures` see to what did not go in.
- `_self_acting` is an instance that also acts when nobody calls: `_workflow_actor` (with
  `_position`, `_transitions`, `_workflow_plans`) and `_timer_actor`; `_step_engine`, `_step_runs`,
  `_run_clients`, `_step_run` and `_step_threads` run their attempts, `_alarms` and `_sweeps` wake
  them.
- `_owner` and `_peers` share the slices with other processes.
- `_client`, `_instance_client` and `_timers` are the way in; `_look`, `_timer_look`,
  `_workflow_look` and `_reader` the way to what is stored.
- `_runtime` puts the parts together.
"""

from greenroom.persistence import InstanceSummary
from greenroom.runtime._call_options import Retries
from greenroom.runtime._calls import Answer, CallRequest, call_chain
from greenroom.runtime._client import AsyncComponentClient, ComponentClient
from greenroom.runtime._dependencies import DependencyProvider, resolve_constructor
from greenroom.runtime._host import codec_for
from greenroom.runtime._instance_client import (
    AsyncEntityClient,
    AsyncWorkflowClient,
    DetailedReply,
    EntityClient,
    WorkflowClient,
)
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
