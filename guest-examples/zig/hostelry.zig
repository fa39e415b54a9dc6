//! Hostelry's contract in Zig: what an agent hears, says, remembers and calls.
//!
//! An agent's root file has `pub fn answer(turn: hostelry.Turn) !void` and `comptime { hostelry.export_agent(answer); }`.
//! Each turn is an instance of its own whose memory goes with it, so `allocator` frees nothing before that.
//!
//! In a component the functions speak the contract itself: `hostelry componentize` gives the module its type and checks
//! each of them against it. Natively a fake host stands in, for tests: see `fake`.

const std = @import("std");
const builtin = @import("builtin");

/// Whether this is a component, and not a test.
const is_component = builtin.target.cpu.arch.isWasm();

/// For whatever a turn needs.
pub const allocator: std.mem.Allocator = if (is_component) std.heap.wasm_allocator else std.heap.page_allocator;

/// What ends a turn. `Closed` (the client is gone) ends it well; of `Failed` the user is shown what `fail` was given.
pub const Error = error{ Closed, Failed, OutOfMemory };

pub const Role = enum(u8) { user, agent };

/// A file that the user sent or named.
pub const File = struct { url: []const u8, media_type: ?[]const u8 };

/// One piece of what was said; an image is a URL.
pub const Content = union(enum) { text: []const u8, image: []const u8, file: File };

/// One message of the conversation.
pub const Message = struct { role: Role, content: Content };

/// One input of the user. Its last message is what was said.
pub const Turn = struct {
    session_id: []const u8 = "session",
    turn_id: []const u8 = "turn",
    user_id: ?[]const u8 = null,
    input: []const Message,

    /// The last message, if it is text.
    pub fn text(turn: Turn) ?[]const u8 {
        return switch (turn.input[turn.input.len - 1].content) {
            .text => |said| said,
            else => null,
        };
    }
};

/// Says a piece of the answer, now.
pub fn chat(text: []const u8) Error!void {
    return emit(.chat, &.{text});
}

/// Says a formatted piece of the answer.
pub fn chatf(comptime format: []const u8, args: anytype) Error!void {
    return chat(try std.fmt.allocPrint(allocator, format, args));
}

/// Shows a piece of thought, apart from the answer.
pub fn think(text: []const u8) Error!void {
    return emit(.think, &.{text});
}

/// Shows a formatted piece of thought.
pub fn thinkf(comptime format: []const u8, args: anytype) Error!void {
    return think(try std.fmt.allocPrint(allocator, format, args));
}

/// What the user may want to ask next: at most 8 are shown, and the last call wins.
pub fn followUp(questions: []const []const u8) Error!void {
    return emit(.follow_up, questions);
}

/// Shows an error that does not end the turn.
pub fn fault(text: []const u8) Error!void {
    return emit(.fault, &.{text});
}

/// Ends the turn as failed: `return hostelry.fail("why")`. The user is shown the text.
pub fn fail(why: []const u8) Error {
    failure = why;
    return error.Failed;
}

/// Why a tool gave no result.
pub const ToolFailure = struct {
    kind: Kind,
    /// In safe words.
    why: []const u8,

    pub const Kind = enum(u8) { unknown, denied, invalid_args, timeout, failed };
};

/// What came of a tool's call.
pub fn Called(comptime Reply: type) type {
    return union(enum) { reply: Reply, failure: ToolFailure };
}

/// Calls a tool of this turn: `args` becomes its JSON object, and its JSON answer becomes a `Reply`, whose fields are
/// those of the answer that are wanted.
pub fn callTool(comptime Reply: type, name: []const u8, args: anytype) Error!Called(Reply) {
    const text = try std.json.Stringify.valueAlloc(allocator, args, .{});
    switch (try call(name, text)) {
        .failure => |failed| return .{ .failure = failed },
        .reply => |answer| {
            const options: std.json.ParseOptions = .{ .ignore_unknown_fields = true };
            const reply = std.json.parseFromSliceLeaky(Reply, allocator, answer, options) catch
                return fail("the tool's answer is not what was expected");
            return .{ .reply = reply };
        },
    }
}

/// What this session said before this turn, oldest first: at most its last `max` messages.
pub fn history(max: u32) Error![]const Message {
    if (!is_component) return fake.history.items[fake.history.items.len -| max..];
    wire.history(max, &wire.room);
    return wire.messages(wire.room[0], wire.room[1]);
}

/// A fact about the turn, such as `now`, `lang` or `location`.
pub fn fact(key: []const u8) ?[]const u8 {
    if (!is_component) return fake.facts.get(key);
    wire.get(key.ptr, key.len, &wire.room);
    return if (wire.room[0] & 0xff == 1) wire.text(wire.room[1], wire.room[2]) else null;
}

pub const Level = enum(u8) { debug, info, warn, err };

/// Writes to the host's log.
pub fn log(level: Level, text: []const u8) void {
    if (is_component) wire.log(@intFromEnum(level), text.ptr, text.len) else std.debug.print("{s}\n", .{text});
}

/// The text that a failed turn shows.
var failure: []const u8 = "";

/// The contract's events of the kinds that are offered here, by their order there.
const Shown = enum(u32) { think = 0, chat = 1, follow_up = 5, fault = 6 };

fn emit(kind: Shown, texts: []const []const u8) Error!void {
    if (!is_component) return fake.emit(kind, texts);
    const room = &wire.room;
    switch (kind) {
        .follow_up => {
            const list = try allocator.alloc([2]u32, texts.len);
            for (list, texts) |*to, from| to.* = .{ wire.address(from.ptr), from.len };
            wire.emitEvent(@intFromEnum(kind), wire.address(list.ptr), list.len, 0, 0, 0, room);
        },
        .fault => wire.emitEvent(@intFromEnum(kind), wire.address(texts[0].ptr), texts[0].len, 0, 0, 0, room),
        // 1 is a piece of the stream.
        .think, .chat => wire.emitEvent(@intFromEnum(kind), 1, wire.address(texts[0].ptr), texts[0].len, 0, 0, room),
    }
    if (room[0] & 0xff == 0) return;
    if (room[1] & 0xff == 0) return error.Closed;
    return fail(wire.text(room[2], room[3]));
}

fn call(name: []const u8, args: []const u8) Error!Called([]const u8) {
    if (!is_component) return fake.call(name, args);
    const room = &wire.room;
    wire.callTool(name.ptr, name.len, args.ptr, args.len, room);
    if (room[0] & 0xff == 0) return .{ .reply = wire.text(room[1], room[2]) };
    const kind: ToolFailure.Kind = @enumFromInt(room[1] & 0xff);
    return .{ .failure = .{ .kind = kind, .why = if (kind == .timeout) "it took too long" else wire.text(room[2], room[3]) } };
}

/// Makes `answer`, a `fn (Turn) !void`, the agent.
pub fn export_agent(comptime answer: anytype) void {
    if (!is_component) return;
    const Handler = struct {
        /// A case, and a text: where `handle` points the host to.
        var outcome: [3]u32 = undefined;

        fn handle(session: u32, session_len: u32, turn: u32, turn_len: u32, has_user: u32, user: u32, user_len: u32, input: u32, input_len: u32) callconv(.c) u32 {
            const asked: Turn = .{
                .session_id = wire.text(session, session_len),
                .turn_id = wire.text(turn, turn_len),
                .user_id = if (has_user == 1) wire.text(user, user_len) else null,
                .input = wire.messages(input, input_len) catch @panic("out of memory"),
            };
            outcome = .{ 0, 0, 0 };
            answer(asked) catch |err| if (err != error.Closed) {
                if (err != error.Failed) {
                    log(.err, @errorName(err));
                    failure = "";
                }
                outcome = .{ 1, wire.address(failure.ptr), failure.len };
            };
            return wire.address(&outcome);
        }
    };
    @export(&Handler.handle, .{ .name = "hostelry:agent/handler@0.1.0#handle" });
    @export(&wire.realloc, .{ .name = "cabi_realloc" });
}

/// The contract's canonical form: a text is an address and a length, a variant is its case and then what its cases hold,
/// and what is no single number is written to where the last parameter points.
const wire = struct {
    extern "hostelry:agent/host@0.1.0" fn @"emit-event"(u32, u32, u32, u32, u32, u32, *[4]u32) void;
    extern "hostelry:agent/host@0.1.0" fn @"call-tool"([*]const u8, u32, [*]const u8, u32, *[4]u32) void;
    extern "hostelry:agent/turn@0.1.0" fn history(u32, *[4]u32) void;
    extern "hostelry:agent/turn@0.1.0" fn get([*]const u8, u32, *[4]u32) void;
    extern "hostelry:agent/log@0.1.0" fn log(u32, [*]const u8, u32) void;
    const emitEvent = @"emit-event";
    const callTool = @"call-tool";

    /// Where results are written; read before anything else is called.
    var room: [4]u32 = undefined;

    fn realloc(old: ?[*]u8, old_size: u32, alignment: u32, size: u32) callconv(.c) [*]u8 {
        _ = alignment; // 8 is the widest that there is
        const to = allocator.alignedAlloc(u8, .@"8", @max(size, 1)) catch @panic("out of memory");
        if (old) |from| @memcpy(to[0..@min(old_size, size)], from[0..@min(old_size, size)]);
        return to.ptr;
    }

    fn address(pointer: anytype) u32 {
        return @intCast(@intFromPtr(pointer));
    }

    fn word(at: u32) u32 {
        return @as(*const u32, @ptrFromInt(at)).*;
    }

    fn text(at: u32, len: u32) []const u8 {
        return if (len == 0) "" else @as([*]const u8, @ptrFromInt(at))[0..len];
    }

    fn textAt(at: u32) []const u8 {
        return text(word(at), word(at + 4));
    }

    /// A list of messages, each of 28 bytes: role, then the content's case and what it holds.
    fn messages(at: u32, len: u32) Error![]const Message {
        const all = try allocator.alloc(Message, len);
        for (all, 0..) |*message, index| {
            const from: u32 = at + 28 * @as(u32, @intCast(index));
            const media_type: ?[]const u8 = if (word(from + 4) & 0xff == 2 and word(from + 16) & 0xff == 1) textAt(from + 20) else null;
            message.* = .{
                .role = @enumFromInt(word(from) & 0xff),
                .content = switch (word(from + 4) & 0xff) {
                    0 => .{ .text = textAt(from + 8) },
                    1 => .{ .image = textAt(from + 8) },
                    else => .{ .file = .{ .url = textAt(from + 8), .media_type = media_type } },
                },
            };
        }
        return all;
    }
};

/// The host, for tests: what it is given, the agent finds, and what the agent does, it keeps.
pub const fake = struct {
    pub var history: std.ArrayList(Message) = .empty;
    pub var facts: std.StringHashMapUnmanaged([]const u8) = .empty;
    /// The turn's tools: a name and a JSON object in, JSON or a failure out.
    pub var tools: ?*const fn (name: []const u8, args: []const u8) Called([]const u8) = null;
    /// After how many events of a turn the client goes away.
    pub var closes_after: usize = std.math.maxInt(usize);
    /// What was shown: a line an event, its kind and its texts.
    pub var shown: std.ArrayList(u8) = .empty;

    var events: usize = 0;
    var said: std.ArrayList(u8) = .empty;

    /// A host that knows nothing but these tools.
    pub fn fresh(with: ?*const fn ([]const u8, []const u8) Called([]const u8)) void {
        fake.history = .empty;
        facts = .empty;
        tools = with;
        closes_after = std.math.maxInt(usize);
        shown = .empty;
    }

    /// Has the agent answer a message, keeps both in the history, and gives the answer's text.
    pub fn ask(comptime answer: anytype, content: Content) Error![]const u8 {
        events = 0;
        said = .empty;
        const message: Message = .{ .role = .user, .content = content };
        const ended = answer(.{ .input = &.{message} });
        try fake.history.append(allocator, message);
        try fake.history.append(allocator, .{ .role = .agent, .content = .{ .text = said.items } });
        ended catch |err| if (err != error.Closed) return error.Failed;
        return said.items;
    }

    /// What the agent failed with.
    pub fn why() []const u8 {
        return failure;
    }

    fn emit(kind: Shown, texts: []const []const u8) Error!void {
        if (events >= closes_after) return error.Closed;
        events += 1;
        try shown.appendSlice(allocator, @tagName(kind));
        for (texts) |text| {
            try shown.append(allocator, ' ');
            try shown.appendSlice(allocator, text);
            if (kind == .chat) try said.appendSlice(allocator, text);
        }
        try shown.append(allocator, '\n');
    }

    fn call(name: []const u8, args: []const u8) Called([]const u8) {
        const run = tools orelse return .{ .failure = .{ .kind = .unknown, .why = "there is no tool in this turn" } };
        return run(name, args);
    }
};
