# Vivado, within v++: runs after routing and writes the reports that `symlight package --seal` reads.

set results [file join [file dirname [file normalize [info script]]] reports]
file mkdir $results
report_timing_summary -delay_type min_max -max_paths 20 -file [file join $results timing.rpt]
report_utilization -file [file join $results utilisation.rpt]
report_utilization -slr -file [file join $results utilisation_slr.rpt]
