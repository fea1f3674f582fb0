"""FunctionDefinition: one function of a pipeline with its options, as its author declared it."""

import difflib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, TypedDict, get_args

import msgspec

from firesteel.model.jobgraph import DEFAULT_GROUP, FunctionKind
from firesteel.model.labels import Labels, labels_text, parse_labels
from firesteel.model.options import ConfigurationError, parse_duration_ms, parse_memory_mib
from firesteel.model.resources import UNSPECIFIED, ResourceProfile
from firesteel.model.splits import DateInputFormat, FileInputFormat, InputFormat, KafkaInputFormat, RangeInputFormat
from firesteel.model.unsupported import partial_resources
from firesteel.pipeline.distributions import FORWARD, Distribution
from firesteel.pipeline.errors import InvalidPipeline
from firesteel.pipeline.splits import SPLITS_ARGUMENT

SESSION_ARGUMENT = "spark"
CONTEXT_ARGUMENT = "context"
Share = Literal["store", "recompute", "cache"]
SHARE_MODES = get_args(Share)

Inputs = Mapping[str, Distribution] | Sequence[str]


class FunctionOptions(TypedDict, total=False):
    """Options of `source`, `transform`, `sink` and `noop`."""

    uid: str
    """Stable identity over versions of the pipeline; the function's name by default."""
    parallelism: int
    """Subtasks that each work on a share of the input; 1 (the whole input) by default."""
    per_share: bool
    """With parallelism above 1: let `limit`, `orderBy` and the like act on each subtask's share."""
    inputs: Inputs
    """Distribution of each input that has one, by argument name."""
    splits: InputFormat
    """What the subtasks of a source share: `file_splits(...)`, `range_splits(...)`, `date_splits(...)` or
    `kafka_splits(...)`. The function gets the splits it is to read as the argument `splits`."""
    share: Share
    """How the result reaches its consumers: `store` keeps it once, in files; `recompute` computes it for each;
    `cache` has Spark cache it, for consumers that are fused with it into one region."""
    idempotent: bool
    """Whether a sink that uses none of fs.write_* does no harm when it writes twice."""
    max_attempts: int
    """Attempts at the most, whatever the restart strategy says."""
    retries: int
    """The same as `max_attempts` less one."""
    timeout: float | str | timedelta
    """An attempt that runs longer is failed: seconds, or a text like "5 min"."""
    cpu: float
    """Cores a slot must have; together with `memory`."""
    memory: int | str
    """Memory a slot must have: MiB, or a text like "2g"; together with `cpu`."""
    on: str
    """Labels that a worker must have to run it, like "big" or "big, gpu"; functions with others are not fused with it."""
    slot_sharing_group: str
    """Functions of different groups are never in one slot together, so never fused; "default" by default."""
    co_location: str
    """Subtasks of equal index of the functions that share this name run on one worker, where it has a slot."""


class Argument(msgspec.Struct, frozen=True):
    """An argument of a user's function. `annotation` and `default` may be `inspect.Parameter.empty`."""

    name: str
    annotation: Any
    default: Any

    @property
    def has_default(self) -> bool:
        return self.default is not inspect.Parameter.empty


class FunctionDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A function of a pipeline, options checked. `callable` is None for `noop`."""

    name: str
    kind: FunctionKind
    callable: Callable[..., object] | None = None
    file: str = ""
    line: int = 0
    arguments: tuple[Argument, ...] = ()
    distributions: Mapping[str, Distribution] = {}
    uid: str = ""
    parallelism: int | None = None
    share: str | None = None
    per_share: bool = False
    idempotent: bool = False
    splits: InputFormat | None = None
    max_attempts: int | None = None
    timeout_ms: int | None = None
    resources: ResourceProfile = UNSPECIFIED
    slot_sharing_group: str = DEFAULT_GROUP
    co_location: str = ""

    def error(self, message: str) -> InvalidPipeline:
        """An error that names this function and its line."""
        return InvalidPipeline(message, function=self.name, file=self.file, line=self.line)


def define(function: Callable[..., object], kind: FunctionKind, options: Mapping[str, Any]) -> FunctionDefinition:
    """The definition of a user's function. Raises InvalidPipeline naming function and line."""
    name = getattr(function, "__name__", type(function).__name__)
    if not inspect.isfunction(function):
        raise InvalidPipeline(f"a {kind.value} must be a function (def), not {type(function).__name__}", function=name)
    code = inspect.unwrap(function).__code__
    bare = FunctionDefinition(name=name, kind=kind, callable=function, file=code.co_filename, line=code.co_firstlineno)
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise bare.error("must be a plain function that returns a DataFrame, not async and without yield")
    if not name.isidentifier():
        raise bare.error("give the function a name: use def instead of lambda")
    return _with_options(msgspec.structs.replace(bare, arguments=_arguments(bare, function)), options)


def noop(name: str, **options: Any) -> FunctionDefinition:
    """A vertex that runs nothing, with any parallelism; for `Pipeline.add`.

    Takes the options of FunctionOptions. It is joined by `inputs` with other noop vertices only.
    """
    caller = sys._getframe(1)
    bare = FunctionDefinition(name=name, kind=FunctionKind.NOOP, file=caller.f_code.co_filename, line=caller.f_lineno)
    if not isinstance(name, str) or not name:
        raise bare.error("noop needs a name")
    inputs = options.get("inputs", {})
    empty = inspect.Parameter.empty
    arguments = tuple(Argument(str(each), empty, empty) for each in inputs)
    return _with_options(msgspec.structs.replace(bare, arguments=arguments), options)


def redefine(definition: FunctionDefinition, options: Mapping[str, Any]) -> FunctionDefinition:
    """The definition with some of its options for scheduling set anew. Raises InvalidPipeline."""
    changes: dict[str, Any] = {}
    if "parallelism" in options:
        changes["parallelism"] = _positive(definition, "parallelism", options["parallelism"])
    if "share" in options:
        changes["share"] = _share(definition, options["share"])
    if "retries" in options or "max_attempts" in options:
        changes["max_attempts"] = _max_attempts(definition, options)
    if "timeout" in options:
        changes["timeout_ms"] = _timeout_ms(definition, options["timeout"])
    if {"cpu", "memory", "on"} & options.keys():
        known = definition.resources
        kept = {"cpu": known.cpu_cores, "memory": known.memory_mib, "on": labels_text(known.labels)}
        changes["resources"] = _resources(definition, {**kept, **options})  # an empty `on` has it run anywhere
    if "slot_sharing_group" in options:
        changes["slot_sharing_group"] = _text(definition, "slot_sharing_group", options, DEFAULT_GROUP)
    if "co_location" in options:
        changes["co_location"] = options["co_location"]  # an empty one takes it out of its group
    return msgspec.structs.replace(definition, **changes)


def nearest(name: str, candidates: Iterable[str]) -> str:
    """The candidate that `name` is most likely a slip of, or empty."""
    found = difflib.get_close_matches(name, list(candidates), n=1, cutoff=0.6)
    return found[0] if found else ""


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """`; did you mean 'x'?` or nothing."""
    near = nearest(name, candidates)
    return f"; did you mean {near!r}?" if near else ""


def _arguments(definition: FunctionDefinition, function: Callable[..., object]) -> tuple[Argument, ...]:
    arguments = []
    for parameter in _signature(function).parameters.values():
        if parameter.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
            raise definition.error(f"argument {parameter}: every argument needs a name of its own, without * or /")
        arguments.append(Argument(parameter.name, parameter.annotation, parameter.default))
    return tuple(arguments)


def _signature(function: Callable[..., object]) -> inspect.Signature:
    # Annotations may name types that are imported for type checking only: they are resolved
    # one by one, and only where they matter.
    if sys.version_info >= (3, 14):  # pragma: no cover
        import annotationlib

        return inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF)
    return inspect.signature(function)


def _with_options(definition: FunctionDefinition, options: Mapping[str, Any]) -> FunctionDefinition:
    for option in options:
        if option not in FunctionOptions.__annotations__:
            near = did_you_mean(option, FunctionOptions.__annotations__)
            raise definition.error(f"unknown option {option!r}{near}")
    return msgspec.structs.replace(
        definition,
        uid=_text(definition, "uid", options, definition.name),
        distributions=_distributions(definition, options.get("inputs", {})),
        parallelism=_positive(definition, "parallelism", options.get("parallelism")),
        share=_share(definition, options.get("share")),
        per_share=_boolean(definition, "per_share", options.get("per_share", False)),
        idempotent=_boolean(definition, "idempotent", options.get("idempotent", False)),
        splits=_splits(definition, options.get("splits")),
        max_attempts=_max_attempts(definition, options),
        timeout_ms=_timeout_ms(definition, options.get("timeout")),
        resources=_resources(definition, options),
        slot_sharing_group=_text(definition, "slot_sharing_group", options, DEFAULT_GROUP),
        co_location=_text(definition, "co_location", options, ""),
    )


def _text(definition: FunctionDefinition, option: str, options: Mapping[str, Any], default: str) -> str:
    value = options.get(option, default)
    if not isinstance(value, str) or (option in options and not value):
        raise definition.error(f"{option}={value!r}: must be a text that is not empty")
    return value


def _positive(definition: FunctionDefinition, option: str, value: Any) -> int | None:
    if value is None:
        return None
    if type(value) is not int or value < 1:
        raise definition.error(f"{option}={value!r}: must be a whole number of at least 1")
    return value


def _boolean(definition: FunctionDefinition, option: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise definition.error(f"{option}={value!r}: must be True or False")
    return value


def _share(definition: FunctionDefinition, share: Any) -> str | None:
    if share is not None and share not in SHARE_MODES:
        raise definition.error(f"share={share!r}: must be one of {', '.join(map(repr, SHARE_MODES))}")
    return share  # type: ignore[no-any-return]


def _splits(definition: FunctionDefinition, splits: Any) -> InputFormat | None:
    takes_them = any(argument.name == SPLITS_ARGUMENT for argument in definition.arguments)
    if splits is None:
        return None
    if not isinstance(splits, FileInputFormat | RangeInputFormat | DateInputFormat | KafkaInputFormat):
        made_by = "file_splits(...), range_splits(...), date_splits(...) or kafka_splits(...)"
        raise definition.error(f"splits={splits!r}: must be {made_by}")
    if definition.kind is not FunctionKind.SOURCE:
        raise definition.error(f"only a source has input splits, and this is a {definition.kind.value}")
    if not takes_them:
        raise definition.error("a source with splits takes the argument `splits`, and reads what that holds")
    return splits


def _max_attempts(definition: FunctionDefinition, options: Mapping[str, Any]) -> int | None:
    if "retries" not in options:
        return _positive(definition, "max_attempts", options.get("max_attempts"))
    retries = options["retries"]
    if "max_attempts" in options:
        raise definition.error("give max_attempts or retries, not both")
    if type(retries) is not int or retries < 0:
        raise definition.error(f"retries={retries!r}: must be a whole number of at least 0")
    return retries + 1


def _timeout_ms(definition: FunctionDefinition, timeout: Any) -> int | None:
    if timeout is None:
        return None
    problem = definition.error(f'timeout={timeout!r}: must be seconds above 0, or a text like "5 min"')
    if isinstance(timeout, timedelta):
        timeout = timeout.total_seconds()
    try:
        milliseconds = parse_duration_ms(timeout) if isinstance(timeout, str) else round(timeout * 1_000)
    except (ConfigurationError, TypeError, ValueError, OverflowError):
        raise problem from None
    if milliseconds < 1:
        raise problem
    return milliseconds


def _resources(definition: FunctionDefinition, options: Mapping[str, Any]) -> ResourceProfile:
    cpu, memory = options.get("cpu", 0), options.get("memory", 0)
    try:
        mebibytes = parse_memory_mib(memory) if isinstance(memory, str) else memory
    except ValueError:
        raise definition.error(f'memory={memory!r}: must be MiB, or a text like "512m" or "2g"') from None
    if isinstance(cpu, bool) or not isinstance(cpu, int | float) or not 0 <= cpu < float("inf"):
        raise definition.error(f"cpu={cpu!r}: must be a number of cores, like 1 or 0.5")
    if type(mebibytes) is not int or mebibytes < 0:
        raise definition.error(f'memory={memory!r}: must be MiB, or a text like "512m" or "2g"')
    profile = ResourceProfile(float(cpu), mebibytes, _labels(definition, options.get("on", "")))
    if profile.is_partial:
        raise definition.error(partial_resources(profile.cpu_cores))
    return profile


def _labels(definition: FunctionDefinition, on: Any) -> Labels:
    problem = definition.error(f'on={on!r}: must be labels of workers, like "big" or "big, gpu"')
    if not isinstance(on, str):
        raise problem
    try:
        return parse_labels(on)
    except ValueError:
        raise problem from None


def _distributions(definition: FunctionDefinition, inputs: Any) -> dict[str, Distribution]:
    if not isinstance(inputs, Mapping):
        # A plain list of names joins noop vertices of equal parallelism.
        return {} if definition.kind is not FunctionKind.NOOP else dict.fromkeys(inputs, FORWARD)
    names = [argument.name for argument in definition.arguments]
    for name, distribution in inputs.items():
        if name not in names:
            raise definition.error(f"inputs names {name!r}, which is no argument{did_you_mean(name, names)}")
        if not isinstance(distribution, Distribution):
            raise definition.error(
                f"inputs[{name!r}] is {distribution!r}: use hash_by(...), rebalance(), broadcast() or forward()"
            )
    return dict(inputs)
