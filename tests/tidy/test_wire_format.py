"""What processes say to one another has the form that others rely on."""

from firesteel.adapters.rpc import frames as f
from firesteel.model.messages import Envelope
from tests.network.test_frames import ALL, LIMIT


def test_the_wire_format_is_the_one_of_this_version(golden) -> None:
    """A change here is one that a peer of the version before may not understand: then PROTOCOL_VERSION grows."""
    lines = [f"protocol version {f.PROTOCOL_VERSION}", f.preface().hex()]
    for frame in ALL:
        kind = type(frame.body if isinstance(frame, Envelope) else frame).__name__
        lines.append(f"{kind} {f.encode_frame(frame, LIMIT).hex()}")
    golden("frames_v3.txt", "\n".join(lines) + "\n")
