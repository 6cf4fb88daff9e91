// Values, the layout of a record, the environment, and tables.
#include "lib/results/record.h"

#include <cstdint>
#include <functional>
#include <limits>

#include "lib/core/error.h"
#include "lib/results/environment.h"
#include "lib/results/table.h"
#include "tests/catch.h"

using namespace attn;

namespace {

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

ResultRecord sample_record() {
  ResultRecord record;
  record.app = "attnbench";
  record.time = "2025-01-31T12:00:00Z";
  record.parameters = {{"model", "demo"},     {"device", "cpu"},   {"batch_size", 8},
                       {"prompt_tokens", 64}, {"new_tokens", 128}, {"prompt", "prompts/short_prompt.txt"},
                       {"mode", "flash"}};
  record.metrics = {{"ttft_ms", 12.5}, {"tpot_ms", 2.25}, {"throughput_tps", 3555.5}, {"peak_mem_mb", 31.5}};
  record.memory = {{"peak_bytes", 33030144}, {"at_peak", Fields{{"weights", 1}, {"scores", 0}}}};
  record.statistics["ttft_ms"] = Fields{{"n", 1}, {"median", 12.5}, {"stddev", Value()}};
  record.samples["token_ms"] = std::vector<std::vector<double>>{{12.5, 15.0}, {12.25, 14.5}};
  record.environment = {{"argv", std::vector<std::string>{"attnbench", "--mode", "flash"}}};
  return record;
}

}  // namespace

TEST_CASE("an object keeps the order of its keys and each key once") {
  Fields fields{{"z", 1}, {"a", 2}};
  fields["z"] = 3;
  fields["m"];
  CHECK(to_json(fields) == R"({"z":3,"a":2,"m":null})");
  fields.erase("a");
  CHECK(to_json(fields) == R"({"z":3,"m":null})");
}

TEST_CASE("numbers are written in the shortest form that reads back the same") {
  const Fields fields{{"third", 1.0 / 3}, {"tenth", 0.1}, {"big", std::int64_t{1} << 53}};
  const std::string text = to_json(fields);
  CHECK(text == R"({"third":0.3333333333333333,"tenth":0.1,"big":9007199254740992})");
  CHECK(parse_json(text, "t").fields()->find("third")->number() == 1.0 / 3);
  CHECK(to_json(Value(std::numeric_limits<std::uint64_t>::max())) == "\"18446744073709551615\"");
}

TEST_CASE("strings with quotes control characters and broken UTF-8 stay valid JSON") {
  const std::string nasty = "a\"b\\c\td\ne'f\x01 \xc3\xa9 \xff";
  const Value back = parse_json(to_json(Value(nasty)), "t");
  CHECK(*back.string() == "a\"b\\c\td\ne'f\x01 \xc3\xa9 \xef\xbf\xbd");
}

TEST_CASE("a number that is not finite is refused by the name of its key") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Fields fields{{"samples", Fields{{"ttft_ms", std::vector<double>{1, nan}}}}};
  const std::string message = message_of([&] { to_json(fields); });
  CHECK(message.find("samples.ttft_ms") != std::string::npos);
  CHECK_THROWS_AS(to_json(Value(-std::numeric_limits<double>::infinity())), Error);
}

TEST_CASE("NaN and Infinity of other writers are read as missing and only outside strings") {
  const Value value = parse_json(R"({"a": NaN, "b": [Infinity, -Infinity, 1], "c": "NaN \" Infinity"})", "t");
  CHECK(to_json(value) == R"({"a":null,"b":[null,null,1],"c":"NaN \" Infinity"})");
}

TEST_CASE("broken or endlessly nested JSON is bad input that names its source") {
  CHECK(message_of([] { parse_json("{\"a\": ", "x.json"); }).find("x.json: not JSON") == 0);
  CHECK(message_of([] { parse_json(std::string(100000, '['), "x.json"); }).find("x.json: nested") == 0);
  CHECK_THROWS_AS(parse_json("", "x"), Error);
}

TEST_CASE("a record on disk has flat metrics and the keys of system B") {
  const Fields object = to_fields(sample_record());
  CHECK(*object.find("schema")->string() == "attnbench/1");
  CHECK(*object.find("outcome")->string() == "ok");
  CHECK(object.find("ttft_ms")->number() == 12.5);
  CHECK(object.find("batch_size")->number() == 8);
  CHECK(object.find("max_new_tokens")->number() == 128);
  CHECK(object.find("prompt_seq_len")->number() == 64);
  CHECK(object.find("tpot_ms")->number() == 2.25);
  CHECK(object.find("throughput_tps")->number() == 3555.5);
  CHECK(object.find("peak_mem_mb")->number() == 31.5);
  CHECK(to_json(*object.find("config")) ==
        R"({"mode":"flash","device":"cpu","model_name":"demo","prompt_path":"prompts/short_prompt.txt",)"
        R"("max_prompt_tokens":null,"FLASH_SDPA":"1"})");
}

TEST_CASE("a record without a figure has null there and never zero") {
  ResultRecord record = sample_record();
  record.outcome = Outcome::out_of_memory;
  record.reason = "3 GiB asked for, 1 GiB free";
  record.metrics = {};
  const Fields object = to_fields(record);
  for (const char* key : {"ttft_ms", "tpot_ms", "throughput_tps", "peak_mem_mb"}) {
    REQUIRE(object.find(key));
    CHECK(object.find(key)->is_null());
  }
  CHECK(*object.find("outcome")->string() == "out_of_memory");
}

TEST_CASE("a record survives the way to disk and back") {
  const std::string text = to_json(to_fields(sample_record()));
  const ResultRecord back = record_from(*parse_json(text, "t").fields(), "f:1");
  CHECK(to_json(to_fields(back)) == text);
  CHECK(back.source == "f:1");
  CHECK(back.metrics.find("ttft_ms")->number() == 12.5);
  CHECK_FALSE(back.metrics.find("batch_size"));
  CHECK(back.parameters.find("batch_size")->number() == 8);
}

TEST_CASE("a record with unknown and missing keys is read") {
  const Value value =
      parse_json(R"({"schema":"attnbench/1","future":{"x":1},"new_metric":2,"parameters":null})", "t");
  const ResultRecord record = record_from(*value.fields(), "t");
  CHECK(record.app.empty());
  CHECK(record.outcome == Outcome::ok);
  CHECK(record.metrics.find("new_metric")->number() == 2);
  CHECK(record.extra.find("future"));
  CHECK(record.parameters.empty());
}

TEST_CASE("a record of another schema or with an unknown outcome is refused") {
  CHECK_THROWS_AS(record_from({{"schema", "attnbench/2"}}, "t"), Error);
  CHECK_THROWS_AS(record_from({{"schema", "attnbench/1"}, {"outcome", "splendid"}}, "t"), Error);
}

TEST_CASE("a metric may not hide another key of the record") {
  ResultRecord record = sample_record();
  record.metrics["time"] = 3;
  CHECK_THROWS_AS(to_fields(record), Error);
  record = sample_record();
  record.metrics["samples"] = 3;
  CHECK_THROWS_AS(to_fields(record), Error);
}

TEST_CASE("the environment tells machine and build but no host name") {
  RunContext context;
  context.argv = {"attnbench", "--seed", "7"};
  context.threads = 2;
  context.libraries["openblas"] = "0.3.21";
  const Fields fields = environment_fields(context);
  for (const char* key :
       {"argv", "git_commit", "git_dirty", "compiler", "compiler_flags", "build_type", "device", "cpu",
        "logical_cores", "ram_bytes", "os", "kernel", "threads", "libraries"}) {
    INFO(key);
    CHECK(fields.find(key));
  }
  CHECK(*fields.find("logical_cores")->number() >= 1);
  CHECK(*fields.find("ram_bytes")->number() > 1e8);
  CHECK_FALSE(display(*fields.find("cpu")).empty());
  CHECK(display(*fields.find("device")) == display(*fields.find("cpu")));
  const std::string build_type = display(*fields.find("build_type"));
  const bool sanitized = display(*fields.find("compiler_flags")).find("-fsanitize") != std::string::npos;
  CHECK((fields.find("build_warning") != nullptr) == (sanitized || build_type == "Debug"));
}

TEST_CASE("the time of a record is RFC 3339 in UTC") {
  std::string shape = utc_now();
  for (char& c : shape) {
    if (c >= '0' && c <= '9') c = '0';
  }
  CHECK(shape == "0000-00-00T00:00:00Z");
}

TEST_CASE("a table in each format") {
  const Table table{{"name", "ms"}, {{"a \"quoted\", b", "1.5"}, {"tab\there\nline | pipe", ""}, {"short"}}};
  CHECK(format_table(table, TableFormat::tsv) ==
        "name\tms\na \"quoted\", b\t1.5\ntab here line | pipe\t\nshort\t\n");
  CHECK(format_table(table, TableFormat::csv) ==
        "name,ms\r\n\"a \"\"quoted\"\", b\",1.5\r\n\"tab\there\nline | pipe\",\r\nshort,\r\n");
  CHECK(format_table(table, TableFormat::markdown) ==
        "| name | ms |\n| --- | --- |\n| a \"quoted\", b | 1.5 |\n| tab here line \\| pipe |  |\n| short |  "
        "|\n");
  const Table aligned{{"mode", "ms"}, {{"flash", "10.25"}, {"\xc3\xa9t\xc3\xa9", "2"}}};
  CHECK(format_table(aligned, TableFormat::text) ==
        "mode      ms\nflash  10.25\n\xc3\xa9t\xc3\xa9        2\n");
}

TEST_CASE("a row longer than its header is a bug") {
  CHECK_THROWS_AS(format_table({{"a"}, {{"1", "2"}}}, TableFormat::tsv), Error);
}
