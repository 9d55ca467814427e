# Prints the table of one profile from the lines that `run` writes: profile, name, seconds, KiB of memory of rustc, and of it and
# the linker, bytes of code, lines of LLVM IR; `-` for what is not known.

BEGIN {
    # The most that a program may take, as a multiple of what the one that it is compared with takes.
    goal["release", "load_save"] = 0.7
    goal["debug", "load_save"] = 1
    goal["release", "from_to"] = 1.2
    goal["release", "wide"] = 0.1
    goal["release", "many"] = 0.5
    memory_goal = 1.2
    # The most that a program with one more format takes in addition, as a multiple of what serde_json's takes.
    more_goal = 0.02
    # The most KiB of code in addition to a program that loads and saves without a struct.
    code_goal["release", "load_save"] = 250

    row = "%-13s %8s %6s %9s %6s %7s %10s %10s %13s %10s  %s\n"
    printf "\n" row, profile, "CPU s", "ratio", "rustc MiB", "ratio", "linked", "code KiB", "over link", "over library", "LLVM lines", "goals"
}

$1 == profile {
    names[++count] = $2
    seconds[$2] = $3; memory[$2] = $4; linked[$2] = $5; code[$2] = $6; lines[$2] = $7
}

function ratio(value, other) {
    return value == "" || value + 0 == 0 || other + 0 == 0 ? "-" : sprintf("%.2f", value / other)
}

function mib(kib) {
    return kib + 0 ? sprintf("%.0f", kib / 1024) : "-"
}

function over(name, other) {
    if (code[name] == "-" || code[other] == "" || name == "link" || name ~ /_json$/) return "-"
    return sprintf("%.0f", (code[name] - code[other]) / 1024)
}

function check(what, value, most, shown) {
    return value == "-" ? "" : sprintf("%s %s: %s; ", what, shown, value + 0 <= most + 0 ? "met" : "MISSED")
}

function check_more(what, before, after, unit) {
    return before + 0 ? check(what, sprintf("%.3f", (after - before) / unit), more_goal, "<= " more_goal " over from_to") : ""
}

END {
    for (at = 1; at <= count; at++) {
        name = names[at]
        other = name == "wide" || name == "many" ? name "_json" : "serde_json"
        if (name == "link" || name ~ /_json$/) other = ""
        stopped = code[name] == "-"

        cpu = ratio(seconds[name], seconds[other])
        peak = ratio(memory[name], memory[other])
        over_link = over(name, "link")
        over_library = name == "library" ? "-" : over(name, "library")

        goals = ""
        if ((profile, name) in goal) goals = goals check("CPU", cpu, goal[profile, name], "<= " goal[profile, name])
        if (name == "from_to_more" && profile == "release") {
            goals = goals check_more("CPU", seconds["from_to"], seconds[name], seconds["serde_json"])
            goals = goals check_more("lines", lines["from_to"], lines[name], lines["serde_json"])
        }
        if (other != "") goals = goals check("memory", peak, memory_goal, "<= " memory_goal)
        if ((profile, name) in code_goal)
            goals = goals check("code", over_library, code_goal[profile, name], "<= " code_goal[profile, name] " over library")
        sub(/; $/, "", goals)

        printf row, name, (stopped ? "> " : "") sprintf("%.2f", seconds[name]), cpu,
            mib(memory[name]), peak, mib(linked[name]),
            stopped ? "-" : sprintf("%.0f", code[name] / 1024), over_link, over_library, lines[name], goals
    }
}
