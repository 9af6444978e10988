"""The known event types (session-log.md §2.1), every version and fork together.

A type that is here or has a row type in :mod:`schemas.shapes` is interpreted whatever its
``ignorable`` says; any other is an :class:`operators.events.Unknown`.
"""

from __future__ import annotations

from typing import Final

#: Known types that change neither rows nor surface.
LOG_ONLY: Final = frozenset(
    {
        "agent-preset/selected",
        "approval/asked",
        "approval/decided",
        "approval/policy",
        "automation/start",
        "deliverables/presented",
        "feedback/message-delete",
        "feedback/message-put",
        "feedback/record",
        "git/worktree",
        "goal/change",
        "hook/invoked",
        "hook/result",
        "job/registered",
        "job/settled",
        "mode/set",
        "model/selection",
        "permission/preset",
        "plan/mode",
        "prompt/blocked",
        "request/header-delta",
        "sandbox/mode",
        "schedule/change",
        "session-log-deepseek/delivery-accepted",
        "session/title-llm-request",
        "subagent/catalog",
        "subagent/descriptor",
        "subagent/model-selection-policy",
        "team/member",
        "team/message/delivered",
        "team/message/queued",
        "team/task",
        "todo/write",
        "tool-workflow/agent-end",
        "tool-workflow/agent-start",
        "tool-workflow/run-end",
        "tool-workflow/run-start",
        "web/deepseek-search-llm-request",
        "working-directory/change",
        "workspace/changes",
        "workspace/home",
    }
)
