"""What a run still has to do."""

import pytest

from fedjax_links.planning.lanes import Lane
from fedjax_links.runner.work_left import WorkLeft
from tests.runner.made_in_python import quadratic


@pytest.mark.parametrize(('stage', 'rounds'), [('tuning', 10), ('main', 6), ('tie', 6)])
def test_lanes_of_a_fork_begin_at_its_round(stage, rounds):
    """All but those of tuning, as `stages` starts them."""
    left = WorkLeft(quadratic().plan, {}, first_round=4)
    lane = Lane(stage, 'fedavg', 'links', {}, 0, 10, (0, 0))
    assert left.rounds(lane) == rounds
