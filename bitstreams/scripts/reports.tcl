# Vivado, within v++: runs after routing and writes the reports that `symlight package --seal` reads.

set results [file join [file dirname [file normalize [info script]]] reports]
file mkdir $results
report_timing_summary -delay_type min_max -max_paths 20 -file [file join $results timing.rpt]
report_utilization -file [file join $results utilisation.rpt]
report_utilization -slr -file [file join $results utilisation_slr.rpt]

# What a person looks at. None of these may end a build of hours.
foreach {name command} {
    power.rpt {report_power}
    congestion.rpt {report_design_analysis -congestion}
    cdc.rpt {report_cdc}
    methodology.rpt {report_methodology}
    ram.rpt {report_ram_utilization}
    fanout.rpt {report_high_fanout_nets -fanout_greater_than 500 -max_nets 200}
} {
    if {[catch {eval $command [list -file [file join $results $name]]} message]} {
        puts "CRITICAL WARNING: reports: $name was not written: $message"
    }
}
