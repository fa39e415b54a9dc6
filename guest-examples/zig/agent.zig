//! A journal: keeps what it is told in a file of the session's workspace, and reads it back.

const std = @import("std");
const hostelry = @import("hostelry.zig");

const path = "journal.md";
const space = " \t\n\x0b\x0c\r";

comptime {
    hostelry.export_agent(answer);
}

const File = struct { content: []const u8 };

pub fn answer(turn: hostelry.Turn) !void {
    const said = turn.text() orelse return hostelry.chat("I keep words only.");
    const before = try hostelry.history(std.math.maxInt(u32));
    var entry: usize = 1;
    for (before) |message| entry += @intFromBool(message.role == .user);
    try hostelry.thinkf("Entry {d}.", .{entry});
    const text = std.mem.trim(u8, said, space);
    if (std.mem.eql(u8, text, "read")) {
        try read();
    } else if (std.mem.eql(u8, text, "before")) {
        try recall(before);
    } else if (std.mem.eql(u8, text, "fail")) {
        return hostelry.fail("You asked me to fail.");
    } else {
        try keep(text);
    }
    try hostelry.followUp(&.{ "read", "before" });
}

/// What the journal holds.
fn load() !hostelry.Called(File) {
    return hostelry.callTool(File, "ReadFile", .{ .filePath = path });
}

fn read() !void {
    switch (try load()) {
        .failure => |failed| if (failed.kind == .invalid_args) {
            try hostelry.chat("The journal is empty.");
        } else {
            try hostelry.chatf("I cannot read the journal: {s}", .{failed.why});
        },
        .reply => |file| {
            var lines = std.mem.tokenizeScalar(u8, file.content, '\n');
            var number: usize = 1;
            while (lines.next()) |line| : (number += 1) try hostelry.chatf("{d}. {s}\n", .{ number, line });
        },
    }
}

fn recall(before: []const hostelry.Message) !void {
    var said: std.ArrayList([]const u8) = .empty;
    for (before) |message| switch (message.content) {
        .text => |text| if (message.role == .user) try said.append(hostelry.allocator, text),
        else => {},
    };
    if (said.items.len == 0) return hostelry.chat("You said nothing before.");
    try hostelry.chatf("Before this you said: {s}", .{try std.mem.join(hostelry.allocator, "; ", said.items)});
}

fn keep(text: []const u8) !void {
    const content = switch (try load()) {
        .reply => |file| file.content,
        .failure => |failed| if (failed.kind == .invalid_args) "" else return refused(failed),
    };
    const whole = try std.fmt.allocPrint(hostelry.allocator, "{s}{s}\n", .{ content, text });
    switch (try hostelry.callTool(struct {}, "WriteFile", .{ .filePath = path, .content = whole })) {
        .failure => |failed| return refused(failed),
        .reply => {},
    }
    try hostelry.chat("Kept:");
    var words = std.mem.tokenizeAny(u8, text, space);
    while (words.next()) |word| try hostelry.chatf(" {s}", .{word});
    try hostelry.chat(".");
}

fn refused(failed: hostelry.ToolFailure) !void {
    try hostelry.chatf("I cannot keep that: {s}", .{failed.why});
}
