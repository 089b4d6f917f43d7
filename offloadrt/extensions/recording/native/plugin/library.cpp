// What functions of the C and C++ libraries, and of flang's input and output, read and write of the memory that they are given.
//
// The table has, for each function, its uses of memory: `r` (reads, told before the call) or `w` (writes, told behind it), the argument
// that is the address, and after `=` how many bytes. That is a product of arguments (a digit), of the result (`R`, if it is positive) and
// of numbers (`#8`), or a text to its end (`s`; `s2`: at most so many bytes as argument 2 says). `c` is what an input stream counts in
// gcount(). `f1` and `g1` say that argument 1 is the format of what is printed, or scanned. `?0`: argument 0 is used as nobody knows. A
// function without uses leaves the program's arrays as they are. Where a result says that nothing came (NULL, false), nothing is written.
#include "plugin.h"
#include "../slots.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace llvm;

namespace offload {
namespace {

const StringMap<StringRef> &table() {
  static const StringMap<StringRef> uses{
      // memory and texts
      {"memcpy", "r1=2 w0=2"}, {"memmove", "r1=2 w0=2"}, {"mempcpy", "r1=2 w0=2"}, {"memset", "w0=2"}, {"bzero", "w0=1"},
      {"memcmp", "r0=2 r1=2"}, {"bcmp", "r0=2 r1=2"}, {"strlen", "r0=s"}, {"strnlen", "r0=s1"}, {"strdup", "r0=s"},
      {"strcpy", "r1=s w0=s"}, {"stpcpy", "r1=s w0=s"}, {"strncpy", "r1=s2 w0=2"}, {"stpncpy", "r1=s2 w0=2"}, {"strcat", "r0=s r1=s ?0"},
      {"realloc", ""}, {"munmap", ""}, {"mprotect", ""}, {"madvise", ""}, {"mlock", ""}, {"munlock", ""}, {"msync", "r0=1"},
      {"qsort", "r0=1*2 w0=1*2"}, {"bsearch", ""},
      // files and messages
      {"fread", "w0=R*1"}, {"fwrite", "r0=1*2"}, {"fgets", "w0=s1"}, {"fputs", "r0=s"}, {"puts", "r0=s"},
      {"read", "w1=R"}, {"pread", "w1=R"}, {"pread64", "w1=R"}, {"recv", "w1=R"}, {"getrandom", "w0=R"},
      {"write", "r1=2"}, {"pwrite", "r1=2"}, {"pwrite64", "r1=2"}, {"send", "r1=2"},
      {"printf", "f0"}, {"fprintf", "f1"}, {"dprintf", "f1"}, {"sprintf", "f1 w0=s"}, {"snprintf", "f2 w0=s1"},
      {"scanf", "g0"}, {"fscanf", "g1"}, {"sscanf", "r0=s g1"},
      // the same with _FORTIFY_SOURCE, where sizes stand between the arguments
      {"__fread_chk", "w0=R*2"}, {"__fgets_chk", "w0=s2"}, {"__printf_chk", "f1"}, {"__fprintf_chk", "f2"}, {"__dprintf_chk", "f2"},
      {"__sprintf_chk", "f3 w0=s"}, {"__snprintf_chk", "f4 w0=s1"},
      // numbers
      {"sincos", "w1=#8 w2=#8"}, {"sincosf", "w1=#4 w2=#4"}, {"modf", "w1=#8"}, {"modff", "w1=#4"}, {"frexp", "w1=#4"}, {"frexpf", "w1=#4"},
      {"rand_r", "r0=#4 w0=#4"},
      // streams of libstdc++
      {"_ZNSi4readEPcl", "w1=c"}, {"_ZNSo5writeEPKcl", "r1=2"}, {"_ZNSirsERi", "w1=#4"}, {"_ZNSi10_M_extractIdEERSiRT_", "w1=#8"},
      {"_ZNSi10_M_extractIfEERSiRT_", "w1=#4"}, {"_ZNSi10_M_extractIlEERSiRT_", "w1=#8"}, {"_ZNSi10_M_extractImEERSiRT_", "w1=#8"},
      {"_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc", "r1=s"},
      {"_ZSt16__ostream_insertIcSt11char_traitsIcEERSt13basic_ostreamIT_T0_ES6_PKS3_l", "r1=2"},
      // flang's input and output of single values
      {"_FortranAioInputReal64", "w1=#8"}, {"_FortranAioInputReal32", "w1=#4"}, {"_FortranAioInputInteger", "w1=2"},
      {"_FortranAioInputComplex64", "w1=#16"}, {"_FortranAioInputComplex32", "w1=#8"}, {"_FortranAioInputAscii", "w1=2"},
      {"_FortranAioInputLogical", "w1=#1"}, {"_FortranAioOutputAscii", "r1=2"}};
  return uses;
}

// How many bytes a use has: a number, of a text the most that it may have.
struct Amount {
  Value *bytes = nullptr;
  bool isText = false;
};

class Library {
public:
  explicit Library(CallBase &call) : call(call) {
    const Function *callee = call.getCalledFunction();
    StringRef name = callee && callee->isDeclaration() ? callee->getName() : "";
    name.consume_front("\1"); // a name that a header gives to the assembler
    for (StringRef version : {"__isoc99_", "__isoc23_"})
      name.consume_front(version);
    auto known = table().find(name);
    if (known == table().end() && name.consume_back("_chk") && name.consume_front("__")) // it has the size of what it writes into behind its arguments
      known = table().find(name);
    if (known == table().end())
      return;
    known->second.split(uses, ' ', -1, false);
    isKnown = all_of(uses, [&](StringRef use) { return fits(use); });
  }

  bool isKnown = false;

  // Arguments of which it is not known how they are used.
  SmallVector<Value *, 4> unknown() const {
    SmallVector<Value *, 4> found;
    for (StringRef use : uses)
      if (use[0] == '?')
        found.push_back(argument(use[1]));
      else if (use[0] == 'g' && !formatOf(use))
        for (unsigned i = use[1] - '0' + 1; i < call.arg_size(); i++)
          if (call.getArgOperand(i)->getType()->isPointerTy())
            found.push_back(call.getArgOperand(i));
    return found;
  }

  // Calls `report` with each use: before which instruction, the address, how many bytes, and which way.
  void each(Value *isUnwatched, function_ref<void(IRBuilder<> &, Value *, Value *, unsigned)> report) {
    IRBuilder<> before(&call), behind(afterCall());
    auto tell = [&](Value *address, bool writes, function_ref<Amount(IRBuilder<> &)> amount) {
      if (isUnreachable(address))
        return;
      IRBuilder<> &builder = writes ? behind : before;
      Amount there = amount(builder);
      Value *bytes = builder.CreateSelect(isUnwatched, there.bytes, builder.getInt64(0));
      report(builder, address, bytes, (writes ? STORES : LOADS) | (there.isText ? TEXT : 0));
    };
    for (StringRef use : uses)
      if (use[0] == 'r' || use[0] == 'w')
        tell(argument(use[1]), use[0] == 'w', [&](IRBuilder<> &builder) { return amountOf(use.drop_front(3), use[0] == 'w', builder); });
      else if (std::optional<StringRef> format = use[0] == '?' ? std::nullopt : formatOf(use))
        eachConversion(*format, use[1] - '0' + 1, use[0] == 'g', tell);
  }

private:
  CallBase &call;
  SmallVector<StringRef, 4> uses;

  Value *argument(char digit) const { return call.getArgOperand(digit - '0'); }

  // Whether the call has the arguments that a use is about: a program may have a function of its own of that name.
  bool fits(StringRef use) const {
    auto isThere = [&](char digit, bool isAddress) {
      unsigned number = digit - '0';
      return number < call.arg_size() && (isAddress ? argument(digit)->getType()->isPointerTy() : argument(digit)->getType()->isIntegerTy());
    };
    if (!isThere(use[1], true))
      return false;
    bool isNumber = false; // behind #
    for (char letter : use.drop_front(std::min<size_t>(use.size(), 3))) {
      isNumber = letter == '#' || (isNumber && isDigit(letter));
      if (!isNumber && isDigit(letter) && !isThere(letter, false))
        return false;
    }
    return !use.contains('R') || call.getType()->isIntegerTy();
  }

  static bool isDigit(char letter) { return letter >= '0' && letter <= '9'; }

  Instruction *afterCall() {
    auto *invoke = dyn_cast<InvokeInst>(&call);
    if (!invoke)
      return call.getNextNode();
    BasicBlock *next = invoke->getNormalDest();
    if (!next->getSinglePredecessor())
      next = SplitEdge(invoke->getParent(), next);
    return &*next->getFirstInsertionPt();
  }

  static Value *asNumber(Value *value, IRBuilder<> &builder) { return builder.CreateSExtOrTrunc(value, builder.getInt64Ty()); }

  Value *positiveResult(IRBuilder<> &builder) {
    Value *result = asNumber(&call, builder);
    return builder.CreateSelect(builder.CreateICmpSGT(result, builder.getInt64(0)), result, builder.getInt64(0));
  }

  Amount amountOf(StringRef text, bool writes, IRBuilder<> &builder) {
    Amount amount{builder.getInt64(1), text.starts_with("s")};
    if (text == "s")
      amount.bytes = builder.getInt64(INT64_MAX);
    else if (amount.isText)
      amount.bytes = builder.CreateZExtOrTrunc(argument(text[1]), builder.getInt64Ty());
    SmallVector<StringRef, 3> factors;
    if (!amount.isText)
      text.split(factors, '*');
    for (StringRef factor : factors) {
      int64_t number;
      Value *value = factor == "R"                                                       ? positiveResult(builder)
                     : factor == "c"                                                     ? gcount(builder)
                     : factor.consume_front("#") && !factor.getAsInteger(10, number) ? builder.getInt64(number)
                                                                                         : asNumber(argument(factor[0]), builder);
      amount.bytes = builder.CreateMul(amount.bytes, value);
    }
    if (writes && (call.getType()->isPointerTy() || call.getType()->isIntegerTy(1)))
      amount.bytes = builder.CreateSelect(builder.CreateIsNotNull(&call), amount.bytes, builder.getInt64(0));
    return amount;
  }

  // std::basic_istream of libstdc++ has the number of characters behind its table of virtual functions.
  Value *gcount(IRBuilder<> &builder) {
    return builder.CreateLoad(builder.getInt64Ty(), builder.CreateConstGEP1_64(builder.getInt8Ty(), argument('0'), 8));
  }

  std::optional<StringRef> formatOf(StringRef use) const {
    StringRef format;
    if (getConstantStringInfo(argument(use[1]), format))
      return format;
    return std::nullopt;
  }

  // The texts that a format prints, or the values that it scans: of these as many as the result says.
  void eachConversion(StringRef format, unsigned next, bool scans,
                      function_ref<void(Value *, bool, function_ref<Amount(IRBuilder<> &)>)> tell) {
    unsigned scanned = 0;
    while (format.contains('%')) {
      format = format.drop_front(format.find('%') + 1);
      if (format.consume_front("%"))
        continue;
      bool isLeftOut = scans && format.consume_front("*");
      StringRef how = format.take_while([&](char letter) { return isDigit(letter) || StringRef("-+ #'.*hlLjztq").contains(letter); });
      format = format.drop_front(how.size());
      if (format.empty() || isLeftOut)
        continue;
      next += scans ? 0 : how.count('*');
      if (next >= call.arg_size())
        return;
      Value *value = call.getArgOperand(next++);
      bool isText = (format[0] == 's' || (scans && format[0] == '[')) && !how.contains('l');
      scanned += scans && format[0] != 'n';
      if (!value->getType()->isPointerTy() || (scans ? format[0] == 'n' : !isText || how.contains(".*")))
        continue;
      uint64_t most = INT64_MAX;
      if (!scans && how.contains('.') && how.split('.').second.getAsInteger(10, most))
        most = 0;
      if (scans && !isText && (format[0] != 'c' || how.getAsInteger(10, most)))
        most = scannedBytes(format[0], how);
      tell(value, scans, [&](IRBuilder<> &builder) {
        Value *bytes = builder.getInt64(most);
        if (scans)
          bytes = builder.CreateSelect(builder.CreateICmpSGE(asNumber(&call, builder), builder.getInt64(scanned)), bytes, builder.getInt64(0));
        return Amount{bytes, isText};
      });
    }
  }

  static uint64_t scannedBytes(char conversion, StringRef how) {
    bool isReal = StringRef("aefgAEFG").contains(conversion);
    if (conversion == 'c')
      return 1;
    if (conversion == 'p' || how.contains('j') || how.contains('z') || how.contains('t'))
      return 8;
    if (how.contains('L'))
      return isReal ? 16 : 8;
    if (how.contains('l'))
      return 8;
    return isReal ? 4 : how.count('h') == 2 ? 1 : how.contains('h') ? 2 : 4;
  }
};

} // namespace

bool isOfLibrary(const CallBase &call) { return Library(const_cast<CallBase &>(call)).isKnown; }

SmallVector<Value *, 4> unknownOfLibrary(const CallBase &call) { return Library(const_cast<CallBase &>(call)).unknown(); }

void eachOfLibrary(CallBase &call, Value *isUnwatched, function_ref<void(IRBuilder<> &, Value *, Value *, unsigned)> report) {
  Library(call).each(isUnwatched, report);
}

} // namespace offload
