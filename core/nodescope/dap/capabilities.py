"""Capabilities of the adapter, and the requests that each one announces.

Invariant: exactly the capabilities that exist are announced; a test compares them with the
handlers.
"""

from __future__ import annotations

from typing import Any, Final

from nodescope.ir.capabilities import Feature

RAISING: Final = "node"
OVERFLOW: Final = "nan"

CAPABILITIES: Final[dict[str, Any]] = {
    "supportsConfigurationDoneRequest": True,
    "supportsFunctionBreakpoints": True,
    "supportsConditionalBreakpoints": True,
    "supportsHitConditionalBreakpoints": True,
    "supportsLogPoints": True,
    "supportsDataBreakpoints": True,
    "supportsEvaluateForHovers": True,
    "supportsClipboardContext": True,
    "supportsStepBack": True,
    "supportsStepInTargetsRequest": True,
    "supportsSingleThreadExecutionRequests": True,
    "supportsSetVariable": True,
    "supportsSetExpression": True,
    "supportsReadMemoryRequest": True,
    "supportsCompletionsRequest": True,
    "completionTriggerCharacters": ["/", "[", "(", ":"],
    "supportsExceptionInfoRequest": True,
    "supportsExceptionFilterOptions": True,
    "supportsLoadedSourcesRequest": True,
    "supportsTerminateRequest": True,
    "supportTerminateDebuggee": True,
    "supportsDelayedStackTraceLoading": True,
    "exceptionBreakpointFilters": [
        {
            "filter": RAISING,
            "label": "Nodes that raise",
            "description": "Stop where an operation on tensors raises an exception",
            "default": True,
        },
        {
            "filter": OVERFLOW,
            "label": "NaN and Inf",
            "description": "Stop where a node produces NaN or Inf from finite inputs",
            "default": False,
            "supportsCondition": True,
            "conditionDescription": "where, as in watches: scope:loss, op:log",
        },
    ],
}

# The capabilities of the run on which these depend. The adapter announces them before it knows the
# program; an event of the debuggee withdraws those that its frameworks do not support.
DEPENDENT: Final[dict[str, Feature]] = {
    "supportsSetVariable": "edit",
    "supportsSetExpression": "edit",
    "supportsStepInTargetsRequest": "scopes",
}

# The requests announced by each capability; all others belong to every adapter.
ANNOUNCED: Final[dict[str, tuple[str, ...]]] = {
    "supportsConfigurationDoneRequest": ("configurationDone",),
    "supportsFunctionBreakpoints": ("setFunctionBreakpoints",),
    "supportsDataBreakpoints": ("dataBreakpointInfo", "setDataBreakpoints"),
    "supportsStepBack": ("stepBack", "reverseContinue"),
    "supportsStepInTargetsRequest": ("stepInTargets",),
    "supportsSetVariable": ("setVariable",),
    "supportsSetExpression": ("setExpression",),
    "supportsReadMemoryRequest": ("readMemory",),
    "supportsCompletionsRequest": ("completions",),
    "supportsExceptionInfoRequest": ("exceptionInfo",),
    "supportsLoadedSourcesRequest": ("loadedSources",),
    "supportsTerminateRequest": ("terminate",),
}
