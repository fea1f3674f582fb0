"""One region's plan: the functions of its vertices, called in topological order, within one task process."""

import functools
import inspect
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec

from firesteel.adapters.spark.exchange.fileorigins import FileOrigins
from firesteel.adapters.spark.exchange.layout import Layout, layout_of
from firesteel.adapters.spark.exchange.partitions import StoredResults, is_little
from firesteel.adapters.spark.exchange.results import stage_rows
from firesteel.adapters.spark.refusals import PipelineRefused, UserError
from firesteel.adapters.spark.session.attempt import AttemptSession
from firesteel.adapters.spark.session.columns import columns_declared
from firesteel.adapters.spark.session.context import AttemptContext, RuntimeContext, current_attempt
from firesteel.adapters.spark.session.places import places_of
from firesteel.adapters.spark.session.settings import Changes, merged, refuse_change
from firesteel.adapters.spark.shares.guard import APPROVED, ShareGuard
from firesteel.adapters.spark.shares.seeds import drawn_seeds
from firesteel.adapters.spark.splits.argument import splits_argument
from firesteel.adapters.spark.splits.finder import SplitFinder
from firesteel.adapters.spark.streams.queries import (
    StreamSink,
    refuse_batch_write,
    refuse_stream,
    refuse_stream_writer,
    stream_sink,
)
from firesteel.model.ids import DataSetID, JobVertexID
from firesteel.model.jobgraph import ExchangeMode, Function, FunctionKind, JobGraph, JobType, JobVertex, Partitioner
from firesteel.model.splits import DrawnSplits, InputFormat, places_read
from firesteel.model.tasks import InputPlace, ResultPartition, TaskDeployment, TaskOutcome
from firesteel.pipeline.parameters import argument_value
from firesteel.pipeline.parametertypes import has_enum, read_wire

Resolve = Callable[[Function], Callable[..., Any]]


class RegionPlan:
    """Runs the region once. `active` and `frames` tell an error's reader how far it came."""

    def __init__(
        self, graph: JobGraph, deployment: TaskDeployment, session: AttemptSession, attempt: AttemptContext
    ) -> None:
        self._graph, self._deployment, self._session, self._attempt = graph, deployment, session, attempt
        self._parameters = convert_parameters(graph, attempt.client_directory)
        self._finder = SplitFinder(session.get, self._parameters, attempt.client_directory)
        self._drawn: DrawnSplits | None = None
        """The input splits the source is called with."""
        parallelism = self._vertices()[0].parallelism
        self._subtasks, self._shares = deployment.subtasks or parallelism, deployment.shares(parallelism)
        self._datasets = {dataset.id: dataset for dataset in graph.datasets}
        self._inputs: dict[tuple[JobVertexID, str], Any] = {}
        """Stored results, by the vertex that reads them and the name of the function that made them."""
        self._results = StoredResults(attempt.storage, jvm_cores=attempt.jvm_cores)
        self._read: list[list[ResultPartition]] = []
        self._stored_here: list[ResultPartition] = []
        self._lists = Path()
        self._reads: list[InputPlace] = []
        """Told by the first subtask for all."""
        self._settings: dict[str, Changes] = {}
        """With which the result of each function is made."""
        self._origins = FileOrigins()
        self._guard: ShareGuard | None = None
        self._is_stream = graph.job_type is JobType.STREAMING
        self.streams: list[StreamSink] = []
        """Sinks whose queries are to be started when the plan has run."""
        self.rows_read = self.bytes_read = -1
        """Rows and files of stored results, when the region has run and reads nothing else; else nobody has counted them."""
        self.active: Function | None = None
        self.frames: dict[str, Any] = {}
        self.callables: dict[str, Callable[..., Any]] = {}

    @property
    def input_locations(self) -> tuple[str, ...]:
        """Locations of the stored results that this region reads."""
        return tuple(partition.location for partition in self._deployment.inputs)

    @property
    def sinks(self) -> list[Function]:
        """Sinks of the region."""
        functions = (function for vertex in self._vertices() for function in vertex.functions)
        return [function for function in functions if function.kind is FunctionKind.SINK]

    @property
    def stores(self) -> bool:
        """Whether it stores results."""
        return any(self._stored_of(self._deployment.vertices))

    def run(self, resolve: Resolve, directory: Path, results: str, lists: Path | None = None) -> TaskOutcome:
        """Call every function; store what blocking edges read at the location `results`, and anything else in `directory`,
        but for what Spark's driver is to find, which may be elsewhere: that is in `lists`."""
        self._session.names.begin()
        vertices = self._vertices()
        if self._deployment.inputs or any(f.wants_session for vertex in vertices for f in vertex.functions):
            self._session.get()  # decorators at module level may ask for it
        if vertices[0].functions[0].kind is FunctionKind.SPLITS:
            return self._find_splits(vertices[0])
        if self._subtasks > 1:
            drawn_seeds()  # also those of what stands at module level
        self.load(resolve)  # imports first: a broken module must not cost a started query
        if self._is_stream:
            self._attempt.allow_write = refuse_batch_write
        if self._subtasks > 1:
            self._watch_shares(self._subtasks, directory.parent / APPROVED)
        self._lists = lists or directory
        self._read_inputs(self._lists / "inputs")
        if vertices[0].draws_splits:
            self._draw(vertices[0], directory, results)
        else:
            for vertex in vertices:
                self._run_vertex(vertex, directory, results)
        there = [self._results.files.check_there(stored, self._shares) for stored in self._read]
        if not any(f.kind is FunctionKind.SOURCE for vertex in vertices for f in vertex.functions):
            self.rows_read = _sum([self._results.files.rows_of(each, self._shares) for each in self._read])
            self.bytes_read = _sum([sum(share.sizes.values()) for shares in there for share in shares])
        return TaskOutcome(
            partitions=tuple(self._stored_here),
            sinks=tuple(self._attempt.sinks),
            reads=tuple(self._reads),
        )

    def load(self, resolve: Resolve) -> None:
        """Import every function, by which an error's place is told, too."""
        for vertex in self._vertices():
            for function in vertex.functions:
                self.active = function
                self.callables[function.name] = resolve(function)

    def _vertices(self) -> list[JobVertex]:
        mine = set(self._deployment.vertices)
        return [vertex for vertex in self._graph.vertices if vertex.id in mine]

    def _run_vertex(self, vertex: JobVertex, directory: Path, results: str) -> None:
        for function in vertex.functions:
            self._call(vertex, function)
            if function.kind is FunctionKind.RESULT:
                self._check_leaving(function)
                stage_rows(self._attempt, self.frames[function.name], directory)
        self._store(vertex, results)

    def _find_splits(self, finder: JobVertex) -> TaskOutcome:
        self.active = function = finder.functions[0]
        assert function.splits is not None, "what finds splits knows of what"
        found = {dataset.id for dataset in self._graph.datasets if dataset.producer == finder.id}
        drawing = {edge.target for edge in self._graph.edges if edge.source in found}
        (subtasks,) = (vertex.parallelism for vertex in self._graph.vertices if vertex.id in drawing)
        return TaskOutcome(splits=self._finder.find(function.splits, subtasks))

    def _draw(self, vertex: JobVertex, directory: Path, results: str) -> None:
        """A source draws splits until there is no more, and stores what it makes of each draw. Without any, it stores
        an empty result, for its columns."""
        number = 0
        while not (drawn := self._attempt.draw_splits(number)).is_end or number == 0:
            self._drawn = drawn
            self._run_vertex(vertex, directory / f"draw-{number}", f"{results}/draw-{number}")
            if drawn.is_end:
                return
            number += 1

    def _watch_shares(self, parallelism: int, approved: Path) -> None:
        self._guard = ShareGuard(self._session.get(), parallelism, approved)
        self._attempt.allow_write, self._attempt.withdraw_write = self._guard.staging, self._guard.staged

    def _read_inputs(self, directory: Path) -> None:
        """`directory` is for what reading them takes."""
        little = self._reads_little()
        for edge in self._graph.edges:
            carries_rows = edge.exchange is ExchangeMode.BLOCKING and edge.partitioner is not Partitioner.SPLITS
            if carries_rows and edge.target in self._deployment.vertices:
                stored = [each for each in self._deployment.inputs if each.dataset_id == edge.source]
                place = directory / str(len(self._read))
                frame = self._results.read(self._session.get(), stored, self._shares, place, little_beside=little)
                self._read.append(stored)
                name = self._datasets[edge.source].name
                self._inputs[edge.target, name] = frame
                self._origins.given(frame, stored[0].columns)
                self._settings[name] = merged(
                    name, ((f"subtask {each.subtask}", dict(each.settings)) for each in stored)
                )
                if self._guard is not None:
                    self._guard.given(frame, edge, stored[0].columns)

    def _reads_little(self) -> bool:
        """Whether it reads of no stored result much, if it had all shares, and has no function that is given anything else."""
        sizes: Counter[DataSetID] = Counter()
        for partition in self._deployment.inputs:
            sizes[partition.dataset_id] += partition.size_bytes
        functions = [function for vertex in self._vertices() for function in vertex.functions]
        reads_more = any(each.kind is FunctionKind.SOURCE or each.wants_session for each in functions)
        return not reads_more and all(map(is_little, sizes.values()))

    def _call(self, vertex: JobVertex, function: Function) -> None:
        self.active = function
        self._attempt.vertex_id, self._attempt.function = vertex.id, function
        self._attempt.runtime, self._attempt.artifacts = self._runtime_context(), self._graph.artifacts
        try:
            with current_attempt.calling(self._attempt):
                call = functools.partial(self._in_settings, function, self._arguments(vertex, function))
                result = call() if self._guard is None else self._guard.call(function, call)
        except SystemExit as error:
            raise UserError(
                f"{function.name} ended the process with sys.exit({error.code!r}): "
                "return from the function instead, or raise an exception to fail the job"
            ) from error
        if function.kind is FunctionKind.SINK:
            self._end_in(function, result)
        else:
            self.frames[function.name] = _checked(function, result)
            if function.kind is FunctionKind.SOURCE:
                if not self._is_stream:
                    refuse_stream(function, result)
                self._note_places(function, result)
            self._origins.returned(function, result)
            if function.cached:
                _cache(function, result)
            if self._guard is not None:
                self._guard.returned(function, result)

    def _note_places(self, source: Function, frame: Any) -> None:
        if source.splits is None and self._deployment.subtask == 0:  # else its splits say so
            found = places_of(frame, self._session.get().client, self._session.names.views)
            self._reads += [InputPlace(source.name, place, columns) for place, columns in found.items()]

    def _end_in(self, sink: Function, result: Any) -> None:
        if self._is_stream:
            if self._attempt.sinks:
                refuse_batch_write(sink.name)
            self.streams.append(stream_sink(sink, result))
        else:
            refuse_stream_writer(sink, result)

    def begin_stream(self, sink: StreamSink) -> None:
        """Its query is about to be started: with the settings that it was made with, which it then keeps."""
        self.active = sink.function
        self._session.switch_settings(self._settings[sink.function.name])

    def look_at_stream(self, sink: StreamSink) -> None:
        self.active = sink.function

    def _in_settings(self, function: Function, arguments: dict[str, Any]) -> Any:
        """Call it with the settings that its inputs were made with."""
        wanted = merged(function.name, ((name, self._settings[name]) for name in function.inputs))
        self._session.switch_settings(wanted)
        if function.inputs:
            self._session.before_setting = functools.partial(refuse_change, function.name, function.inputs)
        try:
            with self._session.code_of(function.name):
                return self._origins.call(function, functools.partial(self.callables[function.name], **arguments))
        finally:
            self._session.before_setting = lambda name: None
            self._settings[function.name] = self._session.settings()

    def _arguments(self, vertex: JobVertex, function: Function) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            name: self._inputs[vertex.id, name] if (vertex.id, name) in self._inputs else self.frames[name]
            for name in function.inputs
        }
        given = [name for name in function.parameters if name in self._parameters]
        arguments.update((name, self._parameter(function, name)) for name in given)
        if function.kind is FunctionKind.SOURCE and function.splits is not None:
            arguments["splits"] = splits = self._splits(function, function.splits)
            if self._guard is not None:
                self._guard.drawn(splits)
        if function.wants_session:
            arguments["spark"] = self._session.get()
        if function.wants_context:
            arguments["context"] = self._attempt.runtime
        return arguments

    def _parameter(self, function: Function, name: str) -> Any:
        if not has_enum(self._graph.parameter_types.get(name, "")):
            return self._parameters[name]
        try:
            wire, base = self._graph.parameters[name], self._attempt.client_directory
            return argument_value(self.callables[function.name], name, wire, base)
        except LookupError as error:
            raise UserError(f"{function.name}: {error}") from None

    def _runtime_context(self) -> RuntimeContext:
        return RuntimeContext(
            job_id=self._graph.job_id,
            job_name=self._graph.name,
            attempt=self._deployment.attempt.attempt,
            subtask=self._deployment.subtask,
            parallelism=self._subtasks,
            parameters=self._parameters,
        )

    def _splits(self, source: Function, declared: InputFormat) -> Any:
        """Splits that were drawn, or, when nothing is to be shared, all there are."""
        found = self._finder.find(declared, 1) if self._drawn is None else self._drawn
        is_told = self._deployment.subtask > 0 or any(each.function == source.name for each in self._reads)
        if found.schema and not is_told:
            columns = columns_declared(found.schema)
            self._reads += [
                InputPlace(source.name, at, columns) for at in places_read(declared, self._graph.parameters)
            ]
        return splits_argument(declared, found.splits, found.schema, self._finder.place_of(declared))

    def _store(self, vertex: JobVertex, results: str) -> None:
        """The function's rows are made once. What others want laid out otherwise is laid out of what is stored: rows that are
        made anew might be others."""
        last, subtask = vertex.functions[-1], self._deployment.subtask
        stored = sorted(self._stored_of([vertex.id]), key=_subpartitions)  # whole ones first: they keep an order
        if not stored:
            return
        self._check_leaving(last)
        frame, held = self.frames[last.name], tuple(self._settings[last.name].items())
        if self._drawn is not None and self._drawn.is_end:
            frame = frame.limit(0)
        for number, (dataset, layout) in enumerate(stored):
            if number == 1:
                lists = self._lists / "stored" / str(len(self._stored_here))
                frame = self._results.read(self._session.get(), [self._stored_here[-1]], None, lists)
            partition = self._results.store(frame, f"{results}/{dataset}", dataset, subtask, layout=layout)
            self._stored_here.append(msgspec.structs.replace(partition, settings=held))

    def _check_leaving(self, function: Function) -> None:
        if self._guard is not None:
            self._guard.leaves(function, self.frames[function.name])

    def _stored_of(self, vertices: Collection[JobVertexID]) -> Iterator[tuple[DataSetID, Layout]]:
        """Data sets of these vertices that blocking edges read."""
        for dataset in self._graph.datasets:
            layout = layout_of(self._graph, dataset.id)
            if dataset.producer in vertices and layout is not None:
                yield dataset.id, layout


def _subpartitions(stored: tuple[DataSetID, Layout]) -> int:
    return stored[1].subpartitions


def _sum(counts: list[int]) -> int:
    """-1 when any of them is not known."""
    return -1 if min(counts, default=-1) < 0 else sum(counts)


def convert_parameters(graph: JobGraph, base: Path) -> dict[str, Any]:
    """Values as the functions declare them, but for enums: of those only functions have the class."""
    types = graph.parameter_types
    return {name: read_wire(types.get(name, ""), wire, base) for name, wire in graph.parameters.items()}


def line_range(function: Callable[..., Any]) -> tuple[str, range] | None:
    """The file and the lines of a function's body, or None when it has no Python code."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return None
    last = max((line for _, _, line in code.co_lines() if line), default=code.co_firstlineno)
    return os.path.realpath(code.co_filename), range(code.co_firstlineno, last + 1)


def _cache(function: Function, frame: Any) -> None:
    """Have Spark cache it. Spark finds what is cached by its plan, which it makes anew for each consumer: with another seed
    where the code gives none to `uuid()` or `rand()` in SQL. Raises PipelineRefused where it would not find it."""
    if not frame.sameSemantics(frame):
        raise PipelineRefused(
            f'{function.name} has share="cache", and values that Spark draws anew for each consumer (uuid(), rand() or their'
            ' kin in SQL, without a seed): give a seed, or say share="store"'
        )
    frame.persist()


def _checked(function: Function, result: Any) -> Any:
    from pyspark.sql import DataFrame

    if isinstance(result, DataFrame):
        return result
    kind = type(result)
    returned, hint = f"an object of {kind.__module__}.{kind.__qualname__}", ""
    if result is None:
        returned, hint = "nothing (None)", "; is its `return` missing?"
    elif kind.__module__.startswith(("pandas", "pyarrow")):
        returned = f"a {kind.__name__} of {kind.__module__.partition('.')[0]}"
        hint = "; make one of it with spark.createDataFrame(...)"
    elif kind.__module__ == "builtins":
        returned = f"{'an' if kind.__name__[0] in 'aeiou' else 'a'} {kind.__name__}"
    raise PipelineRefused(f"{function.kind.value} {function.name} returned {returned}, not a DataFrame of Spark{hint}")
