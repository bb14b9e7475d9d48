// A kernel in a four-state simulator: memories that answer every port, a script of register accesses, and a look at every
// output in every cycle. Parameters come as macros: LANES, CHANNELS, SCRIPT (entries), LIMIT (cycles), RESET (cycles).
`timescale 1ns / 1ps

// Memory of one port: `data` from byte address `base` on, and on port 0 the io buffer from `io_base` on.
module memory #(
    parameter NUMBER = 0,
    parameter BEATS = 1,
    parameter IO_BEATS = 1
) (
    input clk,
    input [63:0] base, io_base,
    input [63:0] araddr, input [7:0] arlen, input arvalid, output arready,
    output reg [8*`LANES-1:0] rdata, output reg rlast, output reg rvalid, input rready,
    input [63:0] awaddr, input awvalid, output awready,
    input [8*`LANES-1:0] wdata, input wvalid, output wready,
    output reg bvalid, input bready
);
    reg [8*`LANES-1:0] data [0:BEATS-1];
    reg [8*`LANES-1:0] io [0:IO_BEATS-1];
    reg [63:0] reads [0:63];
    reg [7:0] lengths [0:63];
    reg [63:0] writes [0:63];
    reg [8*`LANES-1:0] words [0:63];
    reg [5:0] read_in, read_out, write_in, write_out, word_in, word_out, owed;
    reg [7:0] beat;
    reg [63:0] place;

    initial begin
        rvalid = 0; bvalid = 0; rlast = 0; beat = 0;
        read_in = 0; read_out = 0; write_in = 0; write_out = 0; word_in = 0; word_out = 0; owed = 0;
    end

    wire [5:0] waiting = read_in - read_out;
    assign arready = waiting < 40;
    assign awready = 1;
    assign wready = 1;

    function inside;
        input [63:0] address, from;
        input integer beats;
        inside = address >= from && address < from + beats * `LANES;
    endfunction

    always @(posedge clk) begin
        if (arvalid === 1 && arready) begin
            reads[read_in] <= araddr;
            lengths[read_in] <= arlen;
            read_in <= read_in + 1;
        end
        if (!rvalid || rready) begin
            rvalid <= 0;
            if (read_in != read_out) begin
                place = reads[read_out] + beat * `LANES;
                if (inside(place, base, BEATS)) rdata <= data[(place - base) / `LANES];
                else if (inside(place, io_base, IO_BEATS)) rdata <= io[(place - io_base) / `LANES];
                else begin
                    $display("FAILED: port %0d reads %h", NUMBER, place);
                    $finish;
                end
                rvalid <= 1;
                rlast <= beat == lengths[read_out];
                beat <= beat == lengths[read_out] ? 0 : beat + 1;
                if (beat == lengths[read_out]) read_out <= read_out + 1;
            end
        end
        if (awvalid === 1) begin
            writes[write_in] <= awaddr;
            write_in <= write_in + 1;
        end
        if (wvalid === 1) begin
            words[word_in] <= wdata;
            word_in <= word_in + 1;
        end
        if (!bvalid || bready) bvalid <= 0;
        if ((!bvalid || bready) && write_in != write_out && word_in != word_out) begin
            place = writes[write_out];
            if (inside(place, base, BEATS)) data[(place - base) / `LANES] <= words[word_out];
            else if (inside(place, io_base, IO_BEATS)) io[(place - io_base) / `LANES] <= words[word_out];
            else begin
                $display("FAILED: port %0d writes %h", NUMBER, place);
                $finish;
            end
            write_out <= write_out + 1;
            word_out <= word_out + 1;
            bvalid <= 1;
        end
    end
endmodule

module bench;
    reg clk = 0, rst_n = 0;
    always #1 clk = !clk;
    integer cycle = 0, step = 0, runs = 0;
    reg watched = 0;

    // {operation, address, value}: 0 write, 1 wait until CTRL says that the run is done
    reg [47:0] script [0:`SCRIPT-1];
    reg awvalid = 0, wvalid = 0, arvalid = 0;
    reg [11:0] address = 0;
    reg [31:0] value = 0;
    wire awready, wready, bvalid, arready, rvalid, interrupt;
    wire [31:0] rdata;
    wire [1:0] bresp, rresp;

`include "ports.vh"

    task unknown;
        input [8*24:1] name;
        input integer port;
        begin
            $display("UNKNOWN: %0s of port %0d in cycle %0d, run %0d", name, port, cycle, runs);
            $finish;
        end
    endtask

    reg addressed = 0, written = 0;
    always @(posedge clk) begin
        cycle <= cycle + 1;
        rst_n <= cycle >= `RESET;
        watched <= cycle >= 2 * `RESET;
        if (cycle == `LIMIT) begin
            $display("FAILED: no end after %0d cycles, at step %0d", cycle, step);
            $finish;
        end
        if (watched) begin
            if (^{awready, wready, bvalid, arready, rvalid, interrupt} === 1'bx) unknown("control", -1);
            if (bvalid && ^bresp === 1'bx) unknown("control bresp", -1);
            if (rvalid && ^{rdata, rresp} === 1'bx) unknown("control rdata", -1);
        end
        if (watched && step < `SCRIPT) begin
            if (script[step][47:44] == 0) begin
                if (!awvalid && !addressed) begin
                    address <= script[step][43:32];
                    value <= script[step][31:0];
                    awvalid <= 1;
                    wvalid <= 1;
                    addressed <= 1;
                end
                if (awvalid && awready) awvalid <= 0;
                if (wvalid && wready) wvalid <= 0;
                if (bvalid) begin
                    addressed <= 0;
                    step <= step + 1;
                end
            end else begin
                if (!addressed) begin
                    address <= 0;
                    arvalid <= 1;
                    addressed <= 1;
                end
                if (arvalid && arready) arvalid <= 0;
                if (rvalid) begin
                    addressed <= 0;
                    if (rdata[1]) begin
                        step <= step + 1;
                        runs <= runs + 1;
                        keep(runs);
                    end
                end
            end
        end else if (watched) begin
            $display("DONE: %0d cycles", cycle);
            $finish;
        end
    end
endmodule
