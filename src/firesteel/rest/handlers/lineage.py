"""What a job reads and writes outside itself, as far as it is known."""

from collections.abc import Iterator

from firesteel.model.ids import JobVertexID
from firesteel.model.jobgraph import FunctionKind
from firesteel.model.tasks import Columns, InputPlace
from firesteel.model.views import CommittedSink, JobView, VertexView
from firesteel.rest.call import Call
from firesteel.rest.schema.lineage import LineageColumn, LineageInfo, LineageInput, LineageOutput

_SOURCES = (FunctionKind.SOURCE.value, FunctionKind.SCRIPT.value)
_SINK, _SPLITS = FunctionKind.SINK.value, FunctionKind.SPLITS.value


async def of_job(call: Call) -> LineageInfo:
    """Inputs by source, outputs by sink; what has become visible is known when the job has ended."""
    view = await call.job()
    committed: tuple[CommittedSink, ...] = ()
    if view.status.is_globally_terminal:
        committed = (await call.gateway.request_job_result(view.job_id)).sinks
    return LineageInfo(inputs=list(_inputs(view)), outputs=list(_outputs(view, committed)))


def _inputs(view: JobView) -> Iterator[LineageInput]:
    splits = {vertex.id for vertex in view.vertices if _SPLITS in vertex.kinds}
    reads_results = {edge.target for edge in view.edges if edge.source not in splits}
    for vertex in view.vertices:
        sources = [name for name, kind in zip(vertex.functions, vertex.kinds, strict=True) if kind in _SOURCES]
        is_alone = len(sources) == 1 and len(vertex.reads) <= 1 and vertex.id not in reads_results
        rows, size = _read(vertex) if is_alone else (-1, -1)
        for name in sources:
            for read in [each for each in vertex.reads if each.function == name] or [InputPlace(name, "")]:
                yield LineageInput(
                    vertex=vertex.id,
                    function=name,
                    place=read.place,
                    rows=rows,
                    bytes=size,
                    columns=_columns(read.columns),
                )


def _read(vertex: VertexView) -> tuple[int, int]:
    """Rows and bytes, where they are known of all of its subtasks."""
    found = (("rows_read", vertex.io.rows_read), ("bytes_read", vertex.io.bytes_read))
    rows, size = (-1 if name in vertex.io_lacking else value for name, value in found)
    return rows, size


def _outputs(view: JobView, committed: tuple[CommittedSink, ...]) -> Iterator[LineageOutput]:
    """Commits first, in the order in which they were decided; then sinks that have committed nothing."""
    vertex_of: dict[str, JobVertexID] = {}
    for vertex in view.vertices:
        for name, kind in zip(vertex.functions, vertex.kinds, strict=True):
            if kind == _SINK:
                vertex_of[name] = vertex.id
    for sink in committed:
        yield LineageOutput(
            vertex=vertex_of.get(sink.function, ""),
            function=sink.function,
            place=sink.target,
            mode=sink.mode,
            files=sink.files,
            rows=sink.rows,
            bytes=sink.size_bytes,
            columns=_columns(sink.columns),
        )
    done = {sink.function for sink in committed}
    yield from (LineageOutput(vertex=vertex_of[name], function=name) for name in vertex_of if name not in done)


def _columns(columns: Columns) -> list[LineageColumn]:
    return [LineageColumn(*column) for column in columns]
