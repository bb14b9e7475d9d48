#!/usr/bin/env bash
# Builds a packaged kernel with the vendor's tools.
#
#   ./build.sh                  object, link, identity: symlight.xclbin
#   ./build.sh object           only symlight.xo (Vivado)
#   ./build.sh emulation        the same as the first for hardware emulation: symlight.hw_emu.xclbin
#   ./build.sh out_of_context   synthesis, placement and routing of the kernel by itself, without the card's shell (Vivado)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

stop() { echo "build.sh: $1" >&2; exit 1; }

need() {
    for tool in "$@"; do
        command -v "$tool" >/dev/null || stop "$tool is not on the path; source settings64.sh of Vitis and setup.sh of XRT, and run this again"
    done
}

# Versions whose links for this platform were reported to work; of others nothing is known here, except that
# 2026.1 was reported to refuse the platform's encrypted parts.
KNOWN_VERSIONS="2022.2 2023.2"

check_version() {    # name, answer to the question for its version
    local found
    found=$(grep -o '20[0-9][0-9]\.[0-9]' <<<"$2" | head -n 1) || true
    case " $KNOWN_VERSIONS " in
        *" ${found:-none} "*) ;;
        *) echo "build.sh: note: $1 ${found:-of unknown version}; links of this platform are known of $KNOWN_VERSIONS" >&2 ;;
    esac
}

object() {
    need vivado
    check_version Vivado "$(vivado -version 2>&1 || true)"
    rm -f symlight.xo
    vivado -mode batch -nojournal -log package_kernel.log -source package_kernel.tcl
    [ -f symlight.xo ] || stop "Vivado wrote no symlight.xo; package_kernel.log says why"
}

link() {    # target, name of the result, more options of v++
    local target=$1 result=$2
    shift 2
    need vivado v++ xclbinutil
    check_version Vitis "$(v++ --version 2>&1 || true)"
    object
    mkdir -p "link_$target"
    v++ --link --target "$target" --config link.cfg --report_level 2 --temp_dir "link_$target" --log_dir "link_$target/logs" \
        "$@" --output "link_$target/symlight.xclbin" symlight.xo
    # The build id goes into the file, so that the file says by itself what was linked.
    xclbinutil --force --input "link_$target/symlight.xclbin" --key-value "USER:build_id:$(cat build_id)" --output "$result"
}

case "${1:-all}" in
    object) object ;;
    all)
        rm -rf reports
        link hw symlight.xclbin --vivado.prop "run.impl_1.STEPS.PLACE_DESIGN.TCL.PRE=$PWD/floorplan.tcl" \
            --vivado.prop "run.impl_1.STEPS.ROUTE_DESIGN.TCL.POST=$PWD/reports.tcl"
        echo "symlight.xclbin is linked; now: symlight package --seal $PWD/symlight.xclbin" ;;
    emulation) link hw_emu symlight.hw_emu.xclbin ;;
    out_of_context)
        need vivado
        vivado -mode batch -nojournal -log out_of_context.log -source out_of_context.tcl ;;
    *) stop "$1 is unknown; known: object, emulation, out_of_context, and nothing for all" ;;
esac
