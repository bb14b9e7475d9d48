// Behaviour of the ECP5 cells that yosys has as black boxes, as far as its mapping uses them: block RAM without output
// registers, multipliers without registers. Written from Lattice's memory and sysDSP usage guides (TN1264, TN1267).

module DP16KD (
  input DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0,
  input ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0,
  input CEA, OCEA, CLKA, WEA, RSTA, CSA2, CSA1, CSA0,
  output DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1, DOA0,
  input DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0,
  input ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0,
  input CEB, OCEB, CLKB, WEB, RSTB, CSB2, CSB1, CSB0,
  output DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1, DOB0
);
  parameter DATA_WIDTH_A = 18, DATA_WIDTH_B = 18;
  parameter REGMODE_A = "NOREG", REGMODE_B = "NOREG", RESETMODE = "SYNC", ASYNC_RESET_RELEASE = "SYNC";
  parameter CSDECODE_A = "0b000", CSDECODE_B = "0b000", WRITEMODE_A = "NORMAL", WRITEMODE_B = "NORMAL";
  parameter CLKAMUX = "CLKA", CLKBMUX = "CLKB", GSR = "AUTO";
  parameter [319:0] INITVAL_00 = 0;
  parameter [319:0] INITVAL_01 = 0;
  parameter [319:0] INITVAL_02 = 0;
  parameter [319:0] INITVAL_03 = 0;
  parameter [319:0] INITVAL_04 = 0;
  parameter [319:0] INITVAL_05 = 0;
  parameter [319:0] INITVAL_06 = 0;
  parameter [319:0] INITVAL_07 = 0;
  parameter [319:0] INITVAL_08 = 0;
  parameter [319:0] INITVAL_09 = 0;
  parameter [319:0] INITVAL_0A = 0;
  parameter [319:0] INITVAL_0B = 0;
  parameter [319:0] INITVAL_0C = 0;
  parameter [319:0] INITVAL_0D = 0;
  parameter [319:0] INITVAL_0E = 0;
  parameter [319:0] INITVAL_0F = 0;
  parameter [319:0] INITVAL_10 = 0;
  parameter [319:0] INITVAL_11 = 0;
  parameter [319:0] INITVAL_12 = 0;
  parameter [319:0] INITVAL_13 = 0;
  parameter [319:0] INITVAL_14 = 0;
  parameter [319:0] INITVAL_15 = 0;
  parameter [319:0] INITVAL_16 = 0;
  parameter [319:0] INITVAL_17 = 0;
  parameter [319:0] INITVAL_18 = 0;
  parameter [319:0] INITVAL_19 = 0;
  parameter [319:0] INITVAL_1A = 0;
  parameter [319:0] INITVAL_1B = 0;
  parameter [319:0] INITVAL_1C = 0;
  parameter [319:0] INITVAL_1D = 0;
  parameter [319:0] INITVAL_1E = 0;
  parameter [319:0] INITVAL_1F = 0;
  parameter [319:0] INITVAL_20 = 0;
  parameter [319:0] INITVAL_21 = 0;
  parameter [319:0] INITVAL_22 = 0;
  parameter [319:0] INITVAL_23 = 0;
  parameter [319:0] INITVAL_24 = 0;
  parameter [319:0] INITVAL_25 = 0;
  parameter [319:0] INITVAL_26 = 0;
  parameter [319:0] INITVAL_27 = 0;
  parameter [319:0] INITVAL_28 = 0;
  parameter [319:0] INITVAL_29 = 0;
  parameter [319:0] INITVAL_2A = 0;
  parameter [319:0] INITVAL_2B = 0;
  parameter [319:0] INITVAL_2C = 0;
  parameter [319:0] INITVAL_2D = 0;
  parameter [319:0] INITVAL_2E = 0;
  parameter [319:0] INITVAL_2F = 0;
  parameter [319:0] INITVAL_30 = 0;
  parameter [319:0] INITVAL_31 = 0;
  parameter [319:0] INITVAL_32 = 0;
  parameter [319:0] INITVAL_33 = 0;
  parameter [319:0] INITVAL_34 = 0;
  parameter [319:0] INITVAL_35 = 0;
  parameter [319:0] INITVAL_36 = 0;
  parameter [319:0] INITVAL_37 = 0;
  parameter [319:0] INITVAL_38 = 0;
  parameter [319:0] INITVAL_39 = 0;
  parameter [319:0] INITVAL_3A = 0;
  parameter [319:0] INITVAL_3B = 0;
  parameter [319:0] INITVAL_3C = 0;
  parameter [319:0] INITVAL_3D = 0;
  parameter [319:0] INITVAL_3E = 0;
  parameter [319:0] INITVAL_3F = 0;
  localparam WIDE = DATA_WIDTH_A == 36;  // one port writes, the other reads, both with the data pins of both
  localparam SHIFT = WIDE ? 5 : DATA_WIDTH_A == 18 ? 4 : DATA_WIDTH_A == 9 ? 3 : DATA_WIDTH_A == 4 ? 2 : DATA_WIDTH_A == 2 ? 1 : 0;
  localparam ADDRESS = 14 - SHIFT;
  initial if (DATA_WIDTH_A != DATA_WIDTH_B || CLKAMUX != "CLKA" || CLKBMUX != "CLKB" || RESETMODE != "SYNC") begin
    $display("DP16KD in a mode that its model does not have: %0d %0d %s", DATA_WIDTH_A, DATA_WIDTH_B, RESETMODE);
    $stop;
  end

  reg [DATA_WIDTH_A-1:0] mem [0:(1<<ADDRESS)-1];
  // Contents come as 1,024 words of 18 bits, 16 to a parameter, each in 20 bits; narrow words leave the ninth bits out.
  function automatic [287:0] pack(input [319:0] value);
    for (int k = 0; k < 16; k++) pack[18*k +: 18] = value[20*k +: 18];
  endfunction
  localparam [18431:0] INIT = {
    pack(INITVAL_3F), pack(INITVAL_3E), pack(INITVAL_3D), pack(INITVAL_3C), pack(INITVAL_3B),
    pack(INITVAL_3A), pack(INITVAL_39), pack(INITVAL_38), pack(INITVAL_37), pack(INITVAL_36),
    pack(INITVAL_35), pack(INITVAL_34), pack(INITVAL_33), pack(INITVAL_32), pack(INITVAL_31),
    pack(INITVAL_30), pack(INITVAL_2F), pack(INITVAL_2E), pack(INITVAL_2D), pack(INITVAL_2C),
    pack(INITVAL_2B), pack(INITVAL_2A), pack(INITVAL_29), pack(INITVAL_28), pack(INITVAL_27),
    pack(INITVAL_26), pack(INITVAL_25), pack(INITVAL_24), pack(INITVAL_23), pack(INITVAL_22),
    pack(INITVAL_21), pack(INITVAL_20), pack(INITVAL_1F), pack(INITVAL_1E), pack(INITVAL_1D),
    pack(INITVAL_1C), pack(INITVAL_1B), pack(INITVAL_1A), pack(INITVAL_19), pack(INITVAL_18),
    pack(INITVAL_17), pack(INITVAL_16), pack(INITVAL_15), pack(INITVAL_14), pack(INITVAL_13),
    pack(INITVAL_12), pack(INITVAL_11), pack(INITVAL_10), pack(INITVAL_0F), pack(INITVAL_0E),
    pack(INITVAL_0D), pack(INITVAL_0C), pack(INITVAL_0B), pack(INITVAL_0A), pack(INITVAL_09),
    pack(INITVAL_08), pack(INITVAL_07), pack(INITVAL_06), pack(INITVAL_05), pack(INITVAL_04),
    pack(INITVAL_03), pack(INITVAL_02), pack(INITVAL_01), pack(INITVAL_00)
  };
  localparam STEP = DATA_WIDTH_A < 9 ? 9 : DATA_WIDTH_A, PARTS = DATA_WIDTH_A < 9 ? 8 / DATA_WIDTH_A : 1;
  initial for (int i = 0; i < (1<<ADDRESS); i++) mem[i] = INIT[STEP*(i/PARTS) + DATA_WIDTH_A*(i%PARTS) +: DATA_WIDTH_A];

  wire [17:0] di_a = {DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0}, di_b = {DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0};
  wire [13:0] ad_a = {ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0}, ad_b = {ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0};
  reg [35:0] do_a = 0, do_b = 0;
  assign {DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1, DOA0} = WIDE ? do_b[17:0] : do_a[17:0];
  assign {DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1, DOB0} = WIDE ? do_b[35:18] : do_b[17:0];
  wire [ADDRESS-1:0] word_a = ad_a[13:SHIFT], word_b = ad_b[13:SHIFT];
  // The low address bits enable bytes of 9 bits, if there is more than one.
  wire [35:0] mask_a = WIDE ? {{9{ADA3}}, {9{ADA2}}, {9{ADA1}}, {9{ADA0}}}
    : DATA_WIDTH_A == 18 ? {18'b0, {9{ADA1}}, {9{ADA0}}} : 36'h3FFFF;
  wire [35:0] mask_b = DATA_WIDTH_B == 18 ? {18'b0, {9{ADB1}}, {9{ADB0}}} : 36'h3FFFF;
  wire [35:0] old_a = 36'(mem[word_a]), old_b = 36'(mem[word_b]);
  wire [35:0] new_a = (old_a & ~mask_a) | ({di_b, di_a} & mask_a), new_b = (old_b & ~mask_b) | ({18'b0, di_b} & mask_b);

  always @(posedge CLKA) begin
    if (CEA && WEA && !RSTA) mem[word_a] <= new_a[DATA_WIDTH_A-1:0];
    if (RSTA) do_a <= 0;
    else if (CEA && (!WEA || WRITEMODE_A == "READBEFOREWRITE")) do_a <= old_a;
    else if (CEA && WRITEMODE_A == "WRITETHROUGH") do_a <= new_a;
  end
  always @(posedge CLKB) begin
    if (CEB && WEB && !RSTB) mem[word_b] <= new_b[DATA_WIDTH_B-1:0];
    if (RSTB) do_b <= 0;
    else if (CEB && (!WEB || WRITEMODE_B == "READBEFOREWRITE")) do_b <= old_b;
    else if (CEB && WRITEMODE_B == "WRITETHROUGH") do_b <= new_b;
  end
endmodule

module MULT18X18D (
  input A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6, A5, A4, A3, A2, A1, A0,
  input B17, B16, B15, B14, B13, B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1, B0,
  input C17, C16, C15, C14, C13, C12, C11, C10, C9, C8, C7, C6, C5, C4, C3, C2, C1, C0,
  input SIGNEDA, SIGNEDB, SOURCEA, SOURCEB,
  output P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19, P18, P17, P16, P15, P14, P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0
);
  wire signed [18:0] a = {SIGNEDA & A17, A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6, A5, A4, A3, A2, A1, A0};
  wire signed [18:0] b = {SIGNEDB & B17, B17, B16, B15, B14, B13, B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1, B0};
  wire signed [37:0] product = a * b;
  assign {P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19, P18, P17, P16, P15, P14, P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0} = product[35:0];
endmodule
