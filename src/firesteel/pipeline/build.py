"""A job made of a pipeline, or of its file: graph plus artifacts. Also as bytes in, bytes out, for a child process."""

import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from firesteel.model.ids import JobID
from firesteel.model.jobgraph import InvalidJobGraph, JobGraph, JobType
from firesteel.model.options import BLOB_SIZE_MAX, PACKAGE_SIZE_LIMIT, Configuration, ConfigurationError
from firesteel.pipeline.attachments import NOTHING_ATTACHED, Attachments, attach, on_module_path
from firesteel.pipeline.authoring import Pipeline
from firesteel.pipeline.definition import FunctionDefinition
from firesteel.pipeline.errors import InvalidPipeline, shown_path
from firesteel.pipeline.graph import CodeReference, build_job_graph
from firesteel.pipeline.interpreters import check_interpreter
from firesteel.pipeline.loading import LoadedPipeline, loaded_pipeline
from firesteel.pipeline.logical import resolve
from firesteel.pipeline.ownmodules import is_own_module, own_modules
from firesteel.pipeline.packaging import (
    PackedFile,
    module_root,
    pack_directory,
    package_files,
    pickle_functions,
    store_artifact,
)
from firesteel.pipeline.parameters import Parameter, inherited_values
from firesteel.pipeline.parametertypes import WireValue
from firesteel.pipeline.scripts import DATA_ENDINGS_KEPT, check_script, is_script, script_graph
from firesteel.pipeline.streaming import computed_often
from firesteel.pipeline.transactions import warnings

PICKLE_NAME = "functions.pickle"
"""Name of the artifact that holds functions by name; they have the entry point `functions.pickle:NAME`."""


class BuildRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to a child process to build a job."""

    file: str
    """`FILE` or `FILE:NAME`."""
    job_id: JobID
    parameters: dict[str, str] = {}
    flags: tuple[str, ...] = ()
    """Names of parameters that are true."""
    inherited: dict[str, str] = {}
    """Values of another job, which hold for parameters that are not given; others of them are left out."""
    arguments: tuple[str, ...] = ()
    """Arguments of a plain script."""
    configuration: dict[str, str] = {}
    parallelism: int | None = None
    overrides: dict[str, str] = {}
    """Options by `FUNCTION.OPTION`."""
    name: str = ""
    attachments: Attachments = Attachments()
    output_dir: str = ""
    """Existing directory for the artifacts, also one of other builds; empty means none are made (for looking at a plan)."""
    require_parameters: bool = True


class BuiltJob(msgspec.Struct, frozen=True, kw_only=True, tag="built"):
    """A job ready for submission."""

    graph: JobGraph
    artifacts: dict[str, str] = {}
    """Files by SHA-256."""
    parameters: tuple[Parameter, ...] = ()
    """Parameters that the pipeline declares, for showing."""
    warnings: tuple[str, ...] = ()
    """Warnings for its author before it runs."""
    inherited: dict[str, WireValue] = {}
    """What was inherited, of the parameters that the pipeline takes."""

    def artifact_paths(self) -> dict[str, Path]:
        return {digest: Path(path) for digest, path in self.artifacts.items()}


class BuildFailure(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """Why there is no job: the author's fault, in a sentence; the trace is for digging."""

    message: str
    function: str = ""
    location: str = ""
    trace: str = ""


def build_in_child(payload: bytes) -> bytes:
    """JSON of a BuildRequest in, JSON of a BuiltJob or BuildFailure out. Raises for a bug of ours only."""
    return build_request(msgspec.json.decode(payload, type=BuildRequest))


def build_request(request: BuildRequest) -> bytes:
    """JSON of a BuiltJob or BuildFailure."""
    try:
        return msgspec.json.encode(build_file(request))
    except InvalidPipeline as error:
        failure = BuildFailure(message=str(error), function=error.function, location=error.location, trace=error.trace)
    except (InvalidJobGraph, ConfigurationError) as error:
        failure = BuildFailure(message=str(error), trace=traceback.format_exc())
    return msgspec.json.encode(failure)


def decode_build_reply(reply: bytes) -> BuiltJob | BuildFailure:
    """The answer of `build_in_child`, read."""
    return msgspec.json.decode(reply, type=BuiltJob | BuildFailure)


def build_file(request: BuildRequest) -> BuiltJob:
    """Load the file, pack its directory, build the graph; a plain script is not run for that.

    Raises InvalidPipeline or ConfigurationError.
    """
    if is_script(request.file):
        return _build_script(request, Path(os.path.abspath(request.file)))
    if request.arguments:
        raise InvalidPipeline(f"{request.arguments[0]!r}: a pipeline has parameters: give --param NAME=VALUE")
    settings = Configuration(request.configuration)
    with on_module_path(request.attachments), loaded_pipeline(request.file) as loaded:
        resolved = resolve(loaded.pipeline).declared
        declared = tuple(resolved.parameters.values())
        inherited = inherited_values(resolved, request.inherited)
        given = {name: value for name, value in inherited.items() if name not in request.flags} | request.parameters
        told = _warnings(loaded.pipeline)
        code = _Code(loaded.pipeline, loaded)
        if request.output_dir:
            data = [Path(value.removeprefix("file://")) for value in map(str, given.values()) if value]
            limit_mib = settings.get_option(PACKAGE_SIZE_LIMIT)
            modules = _module_files(loaded) if any(map(os.path.isdir, data)) else []
            files = package_files(loaded.root, loaded.file, limit_mib=limit_mib, data=data, modules=modules)
            code.store_package(loaded, files, Path(request.output_dir))
            code.store_pickle(Path(request.output_dir))
            code.attach(request.attachments, Path(request.output_dir), request.configuration)
        graph = build_job_graph(
            loaded.pipeline,
            job_id=request.job_id,
            parameters=given,
            flags=request.flags,
            configuration=request.configuration,
            parallelism=request.parallelism,
            overrides=request.overrides,
            name=request.name,
            code=code,
            require_parameters=request.require_parameters,
        )
    return BuiltJob(graph=graph, artifacts=code.paths, parameters=declared, warnings=told, inherited=inherited)


def _build_script(request: BuildRequest, file: Path) -> BuiltJob:
    shown = shown_path(os.fspath(file))
    if not request.output_dir:
        raise InvalidPipeline(
            f"{shown} is a plain script, without an import of firesteel: there is no plan, only a run"
        )
    if request.parameters or request.flags or request.parallelism not in (None, 1):
        option = "--param" if request.parameters or request.flags else "--parallelism"
        raise InvalidPipeline(f"{shown} is a plain script: {option} is for pipelines, its arguments follow its name")
    check_script(file)
    settings, code = Configuration(request.configuration), _Artifacts()
    data = [Path(each.rpartition("=")[2].removeprefix("file://")) for each in request.arguments if each]
    files = package_files(
        file.parent,
        file,
        limit_mib=settings.get_option(PACKAGE_SIZE_LIMIT),
        data=data,
        code_endings=DATA_ENDINGS_KEPT,
    )
    code.store(Path(request.output_dir), "code.zip", "code", pack_directory(file.parent, files, {}))
    code.attach(request.attachments, Path(request.output_dir), request.configuration)
    graph = script_graph(
        file,
        request.arguments,
        job_id=request.job_id,
        name=request.name,
        configuration=request.configuration,
        overrides=request.overrides,
        artifacts=code.artifacts,
    )
    return BuiltJob(graph=graph, artifacts=code.paths)


def build_job(
    pipeline: Pipeline,
    *,
    job_id: JobID,
    output_dir: Path,
    parameters: Mapping[str, object] | None = None,
    configuration: Mapping[str, str] | None = None,
    parallelism: int | None = None,
    overrides: Mapping[str, str] | None = None,
    name: str = "",
    attachments: Attachments = NOTHING_ATTACHED,
) -> BuiltJob:
    """A job of a pipeline that lives in this process (a notebook, a test): its functions travel pickled, with the modules
    of the user's that they import.

    Artifacts are written into `output_dir`. Raises InvalidPipeline or ConfigurationError.
    """
    declared = tuple(resolve(pipeline).declared.parameters.values())
    told = _warnings(pipeline)
    code = _Code(pipeline, None)
    code.store_modules(output_dir)
    code.store_pickle(output_dir)
    code.attach(attachments, output_dir, configuration or {})
    graph = build_job_graph(
        pipeline,
        job_id=job_id,
        parameters=parameters,
        configuration=configuration,
        parallelism=parallelism,
        overrides=overrides,
        name=name,
        code=code,
    )
    return BuiltJob(graph=graph, artifacts=code.paths, parameters=declared, warnings=told)


def _module_files(loaded: LoadedPipeline) -> list[Path]:
    """Files of the modules below the root that are imported now, and of those that the functions import when they run."""
    functions = [each.callable for each in loaded.pipeline.definitions if each.callable is not None]
    imported = [Path(str(symbols["__file__"])) for symbols in loaded.symbols.values()]
    return imported + [each.path for each in own_modules(functions)]


def _warnings(pipeline: Pipeline) -> tuple[str, ...]:
    is_stream = pipeline.job_type is JobType.STREAMING
    return computed_often(pipeline.definitions) if is_stream else warnings(pipeline.definitions)


class _Artifacts(CodeReference):
    """Artifacts that travel with a job, and the files they come from."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: dict[str, str] = {}

    def attach(self, attachments: Attachments, directory: Path, configuration: Mapping[str, str]) -> None:
        settings = Configuration(configuration)
        attached = attach(attachments, directory, settings.get_option(BLOB_SIZE_MAX))
        check_interpreter(settings, {each.artifact: each.path for each in attached})
        for each in attached:
            self.artifacts = (*self.artifacts, each.artifact)
            self.paths[each.artifact.sha256] = os.fspath(each.path)

    def store(self, directory: Path, name: str, kind: str, content: bytes) -> None:
        artifact, path = store_artifact(directory, name, kind, content)
        self.artifacts = (*self.artifacts, artifact)
        self.paths[artifact.sha256] = os.fspath(path)


class _Code(_Artifacts):
    """Decides for every function whether it travels in the package, by name, or pickled."""

    def __init__(self, pipeline: Pipeline, loaded: LoadedPipeline | None) -> None:
        super().__init__()
        self._root = os.fspath(loaded.root) + os.sep if loaded else ""
        self._pickled = {
            each.name: each.callable
            for each in pipeline.definitions
            if each.callable is not None and (loaded is None or not _is_importable(each, loaded))
        }

    def entry_point(self, definition: FunctionDefinition) -> str:
        return (
            f"{PICKLE_NAME}:{definition.name}" if definition.name in self._pickled else super().entry_point(definition)
        )

    def location(self, definition: FunctionDefinition) -> str:
        if self._root and definition.file.startswith(self._root):
            return f"{Path(definition.file[len(self._root) :]).as_posix()}:{definition.line}"
        return super().location(definition)

    def store_package(self, loaded: LoadedPipeline, files: Sequence[PackedFile], directory: Path) -> None:
        is_alias = loaded.module != module_root(loaded.file)[1]
        aliases = {f"{loaded.module}.py": loaded.file} if is_alias else {}
        self.store(directory, "code.zip", "code", pack_directory(loaded.root, files, aliases))

    def store_modules(self, directory: Path) -> None:
        """What the functions that are pickled import, of the user's own."""
        if modules := own_modules(self._pickled.values()):
            self.store(directory, "code.zip", "code", pack_directory(Path.cwd(), modules, {}))

    def store_pickle(self, directory: Path) -> None:
        """Nothing to do when every function is found by name."""
        if self._pickled:
            modules = [] if self._root else [each.__module__ for each in self._pickled.values()]
            content = pickle_functions(self._pickled, filter(is_own_module, modules))
            self.store(directory, PICKLE_NAME, "pickle", content)


def _is_importable(definition: FunctionDefinition, loaded: LoadedPipeline) -> bool:
    """Whether a worker that imports the function's module finds this very function by its name."""
    function = definition.callable
    module, qualified = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    symbols = loaded.symbols.get(module) or vars(sys.modules[module]) if module in sys.modules else {}
    return module != "__main__" and symbols.get(qualified) is function
