"""A channel's place in a plan, for the benches of its parts."""

from tests.benches.bench import Agent


class GroupColumnTable(Agent):
    """Answers `columns` and `log_groups` a cycle later: group of channel `index`, and whether it takes
    part."""

    def __init__(self, bench, index):
        super().__init__(bench)
        self.index = index
        self.asked = (1, 0)

    def drive(self):
        columns, log_groups = self.asked
        group = self.index // max(columns, 1)
        self.dut.group.value, self.dut.active.value = group, int(group >> log_groups == 0)

    def sample(self):
        self.asked = int(self.dut.columns.value), int(self.dut.log_groups.value)
