"""Options of what happens when something fails. Those of single strategies are read in one place,
`core.scheduler.backoff`."""

from firesteel.model.configuration import ConfigOption

RESTART_STRATEGY = ConfigOption(
    "restart-strategy.type",
    "str",
    "none",
    "What happens when a region fails whose functions have no `retries` of their own: the job fails (`none`; also `off`, `disable`), or what that takes runs again (also `fixeddelay`, `failurerate`, `exponentialdelay`).",
    ("none", "fixed-delay", "failure-rate", "exponential-delay"),
    aliases={
        "off": "none",
        "disable": "none",
        "fixeddelay": "fixed-delay",
        "failurerate": "failure-rate",
        "exponentialdelay": "exponential-delay",
    },
    deprecated_key="restart-strategy",
)
RESTART_FIXED_ATTEMPTS = ConfigOption(
    "restart-strategy.fixed-delay.attempts",
    "int",
    1,
    "Restarts before the job fails.",
    minimum=None,
)
RESTART_FIXED_DELAY = ConfigOption(
    "restart-strategy.fixed-delay.delay",
    "duration",
    1_000,
    "Time between a failure and the restart; also of functions with `retries`, whatever the strategy.",
)
RESTART_RATE_FAILURES = ConfigOption(
    "restart-strategy.failure-rate.max-failures-per-interval",
    "int",
    1,
    "Failures within an interval that are answered by restarts; one more fails the job.",
    minimum=None,
)
RESTART_RATE_INTERVAL = ConfigOption(
    "restart-strategy.failure-rate.failure-rate-interval", "duration", 60_000, "The interval in which they are counted."
)
RESTART_RATE_DELAY = ConfigOption(
    "restart-strategy.failure-rate.delay", "duration", 1_000, "Time between a failure and the restart."
)
RESTART_EXPONENTIAL_INITIAL = ConfigOption(
    "restart-strategy.exponential-delay.initial-backoff",
    "duration",
    1_000,
    "Time between the first failure and its restart. Failures that come meanwhile are answered by the same restart.",
)
RESTART_EXPONENTIAL_MAX = ConfigOption(
    "restart-strategy.exponential-delay.max-backoff", "duration", 60_000, "The longest time before a restart."
)
RESTART_EXPONENTIAL_MULTIPLIER = ConfigOption(
    "restart-strategy.exponential-delay.backoff-multiplier",
    "float",
    1.5,
    "How many times longer than for the one before each restart is waited for.",
    minimum=None,
)
RESTART_EXPONENTIAL_RESET = ConfigOption(
    "restart-strategy.exponential-delay.reset-backoff-threshold",
    "duration",
    3_600_000,
    "After this time without a failure the backoff begins anew.",
)
RESTART_EXPONENTIAL_JITTER = ConfigOption(
    "restart-strategy.exponential-delay.jitter-factor",
    "float",
    0.1,
    "Share of the backoff by which it is made longer or shorter, so that jobs that fail together don't restart together.",
    minimum=None,
)
RESTART_EXPONENTIAL_ATTEMPTS = ConfigOption(
    "restart-strategy.exponential-delay.attempts-before-reset-backoff",
    "int",
    2_147_483_647,
    "Restarts before the job fails; counted anew when the backoff begins anew.",
    minimum=None,
)
FAILOVER_STRATEGY = ConfigOption(
    "jobmanager.execution.failover-strategy",
    "str",
    "region",
    "What runs again after a failure: the regions that it touches, or all of the job (`full`).",
    ("region", "full"),
)
EXCEPTION_HISTORY_SIZE = ConfigOption(
    "web.exception-history-size",
    "int",
    16,
    "Failures kept per job; each has those with it that came while it was handled.",
)
