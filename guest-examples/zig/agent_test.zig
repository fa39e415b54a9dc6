//! The journal against a host that is not there: `make test`.

const std = @import("std");
const hostelry = @import("hostelry.zig");
const agent = @import("agent.zig");
const fake = hostelry.fake;

/// The workspace's file.
var journal: ?[]const u8 = null;

fn workspace(name: []const u8, args: []const u8) hostelry.Called([]const u8) {
    const File = struct { filePath: []const u8, content: []const u8 = "" };
    const asked = std.json.parseFromSliceLeaky(File, hostelry.allocator, args, .{}) catch unreachable;
    if (std.mem.eql(u8, name, "WriteFile")) {
        journal = asked.content;
        return .{ .reply = "{\"status\":\"written\"}" };
    }
    const content = journal orelse
        return .{ .failure = .{ .kind = .invalid_args, .why = "filePath: there is no such file" } };
    return .{ .reply = std.json.Stringify.valueAlloc(hostelry.allocator, .{ .content = content }, .{}) catch unreachable };
}

fn denied(_: []const u8, _: []const u8) hostelry.Called([]const u8) {
    return .{ .failure = .{ .kind = .denied, .why = "not granted" } };
}

fn says(text: []const u8, want: []const u8) !void {
    try std.testing.expectEqualStrings(want, try fake.ask(agent.answer, .{ .text = text }));
}

test "what is kept is read back" {
    fake.fresh(workspace);
    journal = null;
    try says("read", "The journal is empty.");
    try says(" buy  milk ", "Kept: buy milk.");
    try says("喝茶", "Kept: 喝茶.");
    try says("read", "1. buy  milk\n2. 喝茶\n");
    try std.testing.expectStringStartsWith(fake.shown.items, "think Entry 1.\n");
    try std.testing.expectStringEndsWith(fake.shown.items, "follow_up read before\n");
}

test "what was said before is remembered" {
    fake.fresh(workspace);
    try says("before", "You said nothing before.");
    try says("tea", "Kept: tea.");
    try says("before", "Before this you said: before; tea");
}

test "a tool that fails is told in its own words" {
    fake.fresh(denied);
    try says("read", "I cannot read the journal: not granted");
    try says("tea", "I cannot keep that: not granted");
}

test "the turn ends as it must" {
    fake.fresh(workspace);
    const said = try fake.ask(agent.answer, .{ .image = "https://h.example/a.png" });
    try std.testing.expectEqualStrings("I keep words only.", said);
    try std.testing.expectError(error.Failed, fake.ask(agent.answer, .{ .text = "fail" }));
    try std.testing.expectEqualStrings("You asked me to fail.", fake.why());
    fake.closes_after = 2;
    try says("a b c", "Kept:");
}
