//! {{name}}: says hello, and what was said to it.

const std = @import("std");
const hostelry = @import("hostelry.zig");

comptime {
    hostelry.export_agent(answer);
}

/// The host calls it once a turn.
pub fn answer(turn: hostelry.Turn) !void {
    const before = try hostelry.history(std.math.maxInt(u32));
    try hostelry.chat(if (before.len > 0) "Hello again! " else "Hello! ");
    const text = turn.text() orelse return hostelry.chat("That was no text.");
    try hostelry.chatf("You said: {s}", .{text});
}
