"""From a model and an engine to layouts, tables, memory images, Verilog and manifests; no component
imports it."""
