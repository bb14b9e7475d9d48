# Vivado: packages the kernel's Verilog as IP and writes the Xilinx object that v++ links.
#
#   vivado -mode batch -source package_kernel.tcl

set here [file dirname [file normalize [info script]]]
source [file join $here settings.tcl]   ;# kernel vendor library version part clock control masters parameters sources

set work [file join $here work]
set ip [file join $work ip]
set object [file join $here $kernel.xo]
file mkdir $work

create_project -force package [file join $work project] -part $part
foreach file $sources {
    add_files -norecurse [file join $here $file]
}
set_property top $kernel [current_fileset]
update_compile_order -fileset sources_1

ipx::package_project -root_dir $ip -vendor $vendor -library $library -taxonomy /KernelIP -import_files -set_current false
ipx::unload_core [file join $ip component.xml]
ipx::edit_ip_in_project -upgrade true -name edit -directory $ip [file join $ip component.xml]
set core [ipx::current_core]
set_property version $version $core
foreach parameter [ipx::get_user_parameters] {
    ipx::remove_user_parameter [get_property NAME $parameter] $core
}

# Every interface belongs to the one clock; an interface without is refused by the linker.
foreach bus [concat $control $masters] {
    ipx::associate_bus_interfaces -busif $bus -clock $clock $core
}
# What the masters never do, so that no converter is put in for it.
foreach bus $masters {
    set interface [ipx::get_bus_interfaces $bus -of_objects $core]
    foreach {name value} $parameters {
        set parameter [ipx::add_bus_parameter -quiet $name $interface]
        set_property value $value $parameter
        set_property value_source constant $parameter
    }
}

set_property sdx_kernel true $core
set_property sdx_kernel_type rtl $core
set_property supported_families { } $core
set_property auto_family_support_level level_2 $core
ipx::create_xgui_files $core
ipx::update_checksums $core
ipx::check_integrity -kernel $core
ipx::save_core $core
close_project -delete

package_xo -force -xo_path $object -kernel_name $kernel -ip_directory $ip -kernel_xml [file join $here kernel.xml]
