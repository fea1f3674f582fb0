"""What the configuration says of registration."""

from firesteel.core.registration import RegistrationTimeouts
from firesteel.model import options
from firesteel.model.options import Configuration, ConfigurationError


def registration_timeouts(config: Configuration) -> RegistrationTimeouts:
    """How often to try. Raises ConfigurationError for times that would let no time pass, or that do not fit together."""
    first, longest = options.REGISTRATION_INITIAL_TIMEOUT, options.REGISTRATION_MAX_TIMEOUT
    first_ms, longest_ms = config.get_option(first), config.get_option(longest)
    if first_ms < 1:
        raise ConfigurationError(f"{first.key}: it has to be at least 1 ms")
    if longest_ms < first_ms:
        raise ConfigurationError(f"{longest.key}: it has to be at least {first.key}, which is {first_ms} ms")
    error_delay_ms = config.get_option(options.REGISTRATION_ERROR_DELAY)
    give_up_ms = config.get_option(options.TASKMANAGER_REGISTRATION_TIMEOUT)
    return RegistrationTimeouts(first_ms, longest_ms, error_delay_ms, give_up_ms)
