# Vivado: synthesises, places and routes one module by itself, without pins; writes a checkpoint and reports.
#
#   vivado -mode batch -source out_of_context.tcl

set here [file dirname [file normalize [info script]]]
source [file join $here out_of_context_settings.tcl]    ;# top part sources

set results [file join $here out_of_context]
file mkdir $results

create_project -in_memory -part $part
foreach file $sources {
    read_verilog [file join $here $file]
}
read_xdc -mode out_of_context [file join $here out_of_context.xdc]

synth_design -top $top -part $part -mode out_of_context
report_utilization -hierarchical -file [file join $results utilisation_synth.rpt]
opt_design
place_design
phys_opt_design
route_design

report_timing_summary -delay_type min_max -max_paths 20 -file [file join $results timing.rpt]
report_utilization -file [file join $results utilisation.rpt]
report_utilization -hierarchical -file [file join $results utilisation_hierarchy.rpt]
write_checkpoint -force [file join $results $top.dcp]
