"""Devices that cannot gather an optional event site refuse the model by the site's name."""

import pytest

from symlight.base.errors import UserError
from symlight.host.device import opening
from symlight.host.device.opening import DeviceOptions, OpenedDevice
from symlight.model.config import preset
from symlight.model.reference import SITES
from symlight.model.synthetic import random_model


@pytest.mark.parametrize("device", ["sim", "xrt:0"])
def test_kernels_refuse_what_they_cannot_gather(device, monkeypatch):
    monkeypatch.setattr(opening, "GATHERED", ())
    model = random_model(preset("tiny"), 1, dict.fromkeys(SITES, 0.3) | {"out": 0.4})
    with pytest.raises(UserError, match="event site 'out'.*--device cpu"):
        with OpenedDevice(DeviceOptions(device=device), model, lambda *_: None):
            pass
