"""What a ResourceManager tells of itself."""

from tests.core.stories.resourcemanager import ResourceManagerPlayer


def test_its_workers_are_those_registered_in_the_order_they_came() -> None:
    player = ResourceManagerPlayer()
    player.play("> start\n> worker w2 .\n> worker w1 . .\n")
    assert player.core.workers == ("w2", "w1")
