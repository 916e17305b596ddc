"""Conversions and merges on a Ray cluster: `pip install ray`.

The driver makes or reads a plan and divides it into groups of items. Tasks run the groups on workers, and the driver commits.
Paths, URLs and numbers travel between them; tensors never do. The plan and the receipts of items lie in a directory that all
of them reach, so a driver that is killed loses nothing: the next one goes on.
"""

from __future__ import annotations

import hashlib
import logging
import os
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ckpt import _ckpt
from ckpt._checkpoint import Checkpoint
from ckpt._convert import plan
from ckpt._errors import CkptError, InputOutputError
from ckpt._plan import Plan, Summary, load_plan
from ckpt._progress import Callback, Progress, callback
from ckpt._reading import Renaming, StrPath, path
from ckpt._stores import current, set_store_options

__all__ = ["convert", "discard", "run"]

_log = logging.getLogger("ckpt")

#: A group is started a second time once it has run this many times as long as half of the others did,
_SLOW = 3
#: and for so many seconds.
_PATIENCE = 5.0
#: Groups for each worker, so that none waits long for the last one.
_GROUPS_EACH = 4
#: Seconds between looks at what runs.
_LOOK = 0.5
#: Seconds that tasks have to finish before they are canceled, and to end before their workers are killed.
_ENDING = 10.0


@dataclass(frozen=True)
class _Job:
    """What every task needs to know."""

    plan: str
    receipts: str
    limits: tuple[tuple[str, int], ...]
    threads: int
    max_memory: int | str | None
    sync: bool
    stores: tuple[tuple[str, str | int | bool], ...]


@lru_cache(maxsize=1)
def _loaded(job: _Job) -> Plan:
    """The plan, which a worker reads once for all tasks that it runs."""
    set_store_options(**dict(job.stores))
    return load_plan(job.plan, limits=dict(job.limits), threads=job.threads, max_memory=job.max_memory)


def _run_group(job: _Job, start: int, stop: int) -> int:
    """Runs a group of items; on a worker."""
    return _loaded(job).run_items(range(start, stop), receipts=job.receipts, sync=job.sync)


class _Staging:
    """The directory of one output's plan and receipts, until the conversion is done."""

    def __init__(self, output: str, given: StrPath | None) -> None:
        output = _absolute(output)
        self.above, name = os.path.split(output.rstrip("/"))
        self.name = f".{name[:100]}.ckpt-staging"
        if given is not None:
            # Outputs of one name share the directory.
            key = hashlib.sha256(output.encode()).hexdigest()[:12]
            self.above, self.name = _absolute(path(given)).rstrip("/"), f"{name[:100]}-{key}.ckpt-staging"
        self.directory = f"{self.above}/{self.name}"
        self.receipts = f"{self.directory}/receipts"

    def begin(self, made: Plan) -> tuple[str, list[int]]:
        """Saves the plan under the name of its contents, so that no other is ever taken for it. Returns its file, and the
        items that are left."""
        file = f"{self.directory}/plan-{made.sha256[:16]}.gz"
        _ckpt.make_directory(self.above)
        is_new = not self.plans()
        try:
            _ckpt.make_directory(self.directory)
            made.save(file, overwrite=True)
            return file, made.items_left(self.receipts)
        except BaseException:
            if is_new:
                self.remove()
            raise

    def plans(self) -> list[str]:
        """The plans that are here."""
        found = _ckpt.list_files(self.above, self.name)
        return [f"{self.directory}/{name}" for name in found if name.startswith("plan-") and name.endswith(".gz")]

    def remove(self) -> None:
        """Removes it. The plans go last: while one is there, `discard` knows what else is."""
        for name in (f"{self.name}/receipts", self.name):
            _ckpt.remove_files(self.above, name)


def _absolute(place: str) -> str:
    return place if "://" in place else os.path.abspath(place)


@dataclass(frozen=True)
class _Attempt:
    """A task that runs a group."""

    group: range
    started: float


class _Groups:
    """Groups of items that wait, run, and are done."""

    def __init__(self, ray: Any, start: Callable[[range], Any], groups: Iterable[range], workers: int) -> None:
        self.ray, self.start, self.workers = ray, start, workers
        self.waiting = deque(groups)
        self.running: dict[Any, _Attempt] = {}
        self.done: set[range] = set()
        self.seconds: list[float] = []

    def run(self, tell: Callable[[range], None]) -> None:
        """Runs all of them; calls `tell` with each that is done."""
        try:
            while self.waiting or any(each.group not in self.done for each in self.running.values()):
                self.fill()
                ready, _ = self.ray.wait(list(self.running), num_returns=1, timeout=_LOOK)
                for task in ready:
                    group = self.collect(task)
                    if group is not None:
                        tell(group)
        except BaseException:
            # Most tasks end soon, and what they wrote is kept.
            self.wait()
            raise
        finally:
            self.end()

    def fill(self) -> None:
        """Gives work to those who have none."""
        while self.waiting and len(self.running) < self.workers:
            self.begin(self.waiting.popleft())
        for group in self.stragglers():
            if len(self.running) < self.workers:
                self.begin(group)

    def begin(self, group: range) -> None:
        self.running[self.start(group)] = _Attempt(group, time.monotonic())

    def stragglers(self) -> list[range]:
        """Groups that take much longer than others, and run once."""
        if self.waiting or not self.seconds:
            return []
        slow = max(_SLOW * statistics.median(self.seconds), _PATIENCE)
        now, groups = time.monotonic(), [each.group for each in self.running.values() if each.group not in self.done]
        old = [each.group for each in self.running.values() if now - each.started > slow]
        return [group for group in groups if group in old and groups.count(group) == 1]

    def collect(self, task: Any) -> range | None:
        """The group of a task that has ended, if this is the first one that ran it."""
        attempt = self.running.pop(task)
        others = [other for other, each in self.running.items() if each.group == attempt.group]
        try:
            self.ray.get(task)
        except self.ray.exceptions.RayError as error:
            if attempt.group in self.done or others:
                return None
            raise _cause(error) from error
        if attempt.group in self.done:
            return None
        self.done.add(attempt.group)
        self.seconds.append(time.monotonic() - attempt.started)
        self.cancel(others, force=False)
        return attempt.group

    def end(self) -> None:
        """Ends what still runs, and waits until nothing is written any more."""
        for force in (False, True):
            self.cancel(list(self.running), force)
            self.wait()

    def cancel(self, tasks: list[Any], force: bool) -> None:
        """Cancels those of the tasks that have not ended. Ray aborts a driver that cancels one in the very moment in which it
        ends, which this makes unlikely."""
        if tasks:
            _, late = self.ray.wait(tasks, num_returns=len(tasks), timeout=0)
            for task in late:
                self.ray.cancel(task, force=force)

    def wait(self) -> None:
        """Waits for what runs, but not for long."""
        tasks = list(self.running)
        if tasks:
            ready, _ = self.ray.wait(tasks, num_returns=len(tasks), timeout=_ENDING)
            for task in ready:
                del self.running[task]


def _cause(error: Any) -> BaseException:
    """What made a task fail: ckpt's own error, or what became of its worker."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, CkptError):
        return cause
    lost = InputOutputError(f"a task was lost: {type(error).__name__}: {error}")
    lost.message, lost.help = "a task was lost", "look at Ray's logs of its node; retries= allows more attempts"
    return lost


def _grouped(items: Sequence[int], sizes: Sequence[int], most: int) -> list[range]:
    """Groups of consecutive items that write about `most` bytes."""
    groups: list[range] = []
    held = 0
    for item in items:
        if groups and groups[-1].stop == item and held + sizes[item] <= most:
            groups[-1] = range(groups[-1].start, item + 1)
            held += sizes[item]
        else:
            groups.append(range(item, item + 1))
            held = sizes[item]
    return groups


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ImportError("ckpt.ray needs Ray: pip install ray", name="ray") from error
    if not ray.is_initialized():
        ray.init()
    return ray


def convert(
    src: StrPath | Checkpoint,
    dst: StrPath,
    *,
    map: Renaming | None = None,
    workers: int | None = None,
    staging: StrPath | None = None,
    retries: int = 3,
    progress: bool | Callback = False,
    item_group_bytes: int = 1 << 30,
    sync: bool = True,
    **options: Any,
) -> Summary:
    """Converts a checkpoint on a Ray cluster. The output has the same bytes as that of `ckpt.convert`.

    All nodes reach `src`, `dst` and `staging` under the same absolute paths or URLs, and have the same version of this
    package. Without `ray.init`, Ray starts, or connects, as `ray.init()` does.

    - `workers` is how many tasks run at once: as many as the cluster has processors for, if left out. A task takes one
      processor, or `threads`.
    - `staging` is a directory for the plan and the receipts of items: beside the output, if left out. They are removed at
      the end.
    - `retries` is how often a task is run again if its worker or node is lost, or the system refuses something. A task that
      takes three times as long as others is started a second time when workers are free.
    - `item_group_bytes` is how much a task writes, at most. Small outputs are divided further, so that each worker gets four
      tasks.
    - `options` are those of `ckpt.plan`.

    An error, Ctrl-C and a killed driver leave what was done. The same call goes on with it, `discard` removes it. After an
    error or Ctrl-C, tasks that run have ten seconds to finish; a second Ctrl-C cancels them at once.
    """
    if options.pop("resume", False):
        raise TypeError("ckpt.ray.convert always goes on where the same conversion ended: leave resume= out")
    ray, made = _ray(), plan(src, dst, map=map, **options)
    again = _Again("ckpt.ray.convert", path(dst), staging)
    job = (options.get("threads"), options.get("max_memory"), options.get("limits"))
    return _distributed(ray, made, again, workers, retries, progress, item_group_bytes, sync, *job)


def run(
    plan: Plan | StrPath,
    *,
    workers: int | None = None,
    staging: StrPath | None = None,
    retries: int = 3,
    progress: bool | Callback = False,
    item_group_bytes: int = 1 << 30,
    sync: bool = True,
    threads: int | None = None,
    max_memory: int | str | None = None,
    limits: Mapping[str, int] | None = None,
) -> Summary:
    """Carries out a plan on a Ray cluster: of a conversion, or of a merge, which `ckpt merge --plan FILE` writes.

    `plan` is a `ckpt.Plan`, or the path or URL of its file. All nodes reach its sources and its output under the paths or URLs
    that it names. `threads`, `max_memory` and `limits` are those of `ckpt.load_plan`, for each task; `convert` says the rest.
    """
    ray = _ray()
    made = plan if isinstance(plan, Plan) else load_plan(plan, limits=limits, threads=threads, max_memory=max_memory)
    if made.output is None:
        raise ValueError("the output of this plan is in memory: no other process can write it")
    again = _Again("ckpt.ray.run", made.output, staging)
    return _distributed(ray, made, again, workers, retries, progress, item_group_bytes, sync, threads, max_memory, limits)


@dataclass(frozen=True)
class _Again:
    """What a person calls to go on after an error."""

    function: str
    output: str
    staging: StrPath | None

    def __str__(self) -> str:
        more = "" if self.staging is None else f", staging={path(self.staging)!r}"
        return (
            f"what was done is kept: make the same call of {self.function} to go on, or remove it with "
            f"ckpt.ray.discard({self.output!r}{more})"
        )


def _distributed(
    ray: Any,
    made: Plan,
    again: _Again,
    workers: int | None,
    retries: int,
    progress: bool | Callback,
    item_group_bytes: int,
    sync: bool,
    threads: int | None,
    max_memory: int | str | None,
    limits: Mapping[str, int] | None,
) -> Summary:
    """Carries out a plan in tasks, and commits."""
    place = _Staging(again.output, again.staging)
    file, left = place.begin(made)
    threads = threads or 1
    job = _Job(
        plan=file, receipts=place.receipts, limits=tuple((limits or {}).items()), threads=threads, max_memory=max_memory,
        sync=sync, stores=tuple(current().items()),
    )  # fmt: skip
    at_once = workers or max(int(ray.cluster_resources().get("CPU", 1)) // threads, 1)
    task = ray.remote(num_cpus=threads, max_retries=retries, retry_exceptions=[OSError])(_run_group)
    groups = _grouped(left, made.items, _group_size(made, left, at_once, item_group_bytes))
    work = _Groups(ray, lambda group: task.remote(job, group.start, group.stop), groups, at_once)
    try:
        summary = _carry_out(made, place.receipts, left, work, progress, sync)
    except BaseException as error:
        error.add_note(str(again))
        raise
    try:
        place.remove()
    except CkptError as error:
        _log.warning("the output is complete, but its plan and receipts stay in %s: %s", place.directory, error)
    return summary


def _group_size(made: Plan, left: list[int], workers: int, most: int) -> int:
    sizes = made.items
    return min(most, sum(sizes[item] for item in left) // (_GROUPS_EACH * workers) + 1)


def _carry_out(
    made: Plan, receipts: str, left: list[int], work: _Groups, progress: bool | Callback, sync: bool
) -> Summary:
    """Runs what is left of a plan, and commits."""
    sizes = made.items
    total = sum(sizes)
    done = total - sum(sizes[item] for item in left)
    show, end = callback(progress)

    def tell(written: int, phase: str) -> None:
        if show is not None:
            show(written, total, phase)

    def ran(group: range) -> None:
        nonlocal done
        done += sum(sizes[group.start : group.stop])
        tell(done, "write")

    try:
        tell(done, "write")
        work.run(ran)
        return made.commit(receipts, progress=lambda now: tell(total, now.phase), sync=sync)
    finally:
        end()


def discard(dst: StrPath, *, staging: StrPath | None = None) -> None:
    """Removes what conversions to `dst` left that did not end: unfinished files, plans and receipts.

    `staging` is what `convert` was given.
    """
    place = _Staging(path(dst), staging)
    for file in place.plans():
        # Nothing is there of a plan whose place another conversion to this output took.
        _ckpt.discard_plan(file)
    place.remove()
