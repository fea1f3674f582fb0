"""The cluster's limits on submissions, as its configuration has them."""

from firesteel.core.dispatcher.admission import Admission
from firesteel.model import options
from firesteel.model.labels import Labels
from firesteel.model.messages import DEFAULT_QUEUE
from firesteel.model.options import Configuration, ConfigurationError


def admission(config: Configuration) -> Admission:
    """Raises ConfigurationError for labels of a queue that there is not."""
    queues: dict[str, int] = config.get_option(options.QUEUES)
    queue_labels: dict[str, Labels] = config.get_option(options.QUEUE_LABELS)
    known = (*queues, DEFAULT_QUEUE)
    if queues and (unknown := [queue for queue in queue_labels if queue not in known]):
        raise ConfigurationError(
            f"{options.QUEUE_LABELS.key}: there is no queue {', '.join(unknown)}: {options.QUEUES.key} has {', '.join(known)}"
        )
    return Admission(
        queues=tuple(queues),
        unfinished_max=config.get_option(options.MAX_UNFINISHED_JOBS),
        queue_labels=queue_labels,
    )
