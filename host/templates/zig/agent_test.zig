//! {{name}} against a host that is not there: `make test`.

const std = @import("std");
const hostelry = @import("hostelry.zig");
const agent = @import("agent.zig");

fn answers(said: hostelry.Content, want: []const u8) !void {
    try std.testing.expectEqualStrings(want, try hostelry.fake.ask(agent.answer, said));
}

test "says hello and what was said" {
    hostelry.fake.fresh(null);
    try answers(.{ .text = "good morning" }, "Hello! You said: good morning");
    try answers(.{ .text = "me again" }, "Hello again! You said: me again");
}

test "says so if it was no text" {
    hostelry.fake.fresh(null);
    try answers(.{ .image = "https://h.example/a.png" }, "Hello! That was no text.");
}
