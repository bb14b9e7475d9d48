"""Answers of a card's sensors in the shape that XRT gives them, with numbers of our own."""

import json

RAILS = (
    ("12v_aux", "12 Volts Auxillary", 12.0, 0.0),
    ("12v_pex", "12 Volts PCI Express", 12.1, 1.5),
    ("3v3_pex", "3.3 Volts PCI Express", 3.3, 1.0),
    ("vccint", "Internal FPGA Vcc", 0.85, 9.0),
    ("hbm_1v2", "1.2 Volts HBM", 1.2, 0.0),
    ("vpp2v5", "Vpp 2.5 Volts", 2.5, 0.0),
)


def electrical(watts: float | str, current: float = 1.5) -> str:
    """`watts`: a number, or the text that a card gives in its place."""
    rails = [
        {
            "id": name,
            "description": about,
            "voltage": {"volts": f"{volts:.3f}", "is_present": str(volts > 0).lower()},
            "current": {
                "amps": f"{current if name == '12v_pex' else amps:.3f}",
                "is_present": str(amps > 0).lower(),
            },
        }
        for name, about, volts, amps in RAILS
    ]
    text = watts if isinstance(watts, str) else f"{watts:.6f}"
    return json.dumps(
        {
            "power_rails": rails,
            "power_consumption_max_watts": "75",
            "power_consumption_watts": text,
            "power_consumption_warning": "false",
        },
        indent=4,
    )


def thermal(fpga: float = 71, hbm: float = 66) -> str:
    places = (
        ("pcb_top_front", "PCB Top Front", 41),
        ("cage_temp_0", "Cage0", 0),
        ("fpga0", "FPGA", fpga),
        ("fpga_hbm", "FPGA HBM", hbm),
    )
    return json.dumps(
        {
            "thermals": [
                {
                    "location_id": name,
                    "description": about,
                    "temp_C": f"{value:g}",
                    "is_present": str(value > 0).lower(),
                }
                for name, about, value in places
            ]
        },
        indent=4,
    )
