// Refuses variables of the host that a parallel algorithm uses by name. The compiler leaves them out of the device's code, or makes
// a second one there that nobody initializes: the program would not be linked, or compute something else.
#include "plugin.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/Operator.h"

using namespace llvm;

namespace offload {
namespace {

// The first instruction that uses a constant, directly or in an expression.
const Instruction *userOf(const Constant &constant) {
  SmallSetVector<const User *, 8> users(constant.user_begin(), constant.user_end());
  for (unsigned at = 0; at < users.size(); at++)
    if (auto *instruction = dyn_cast<Instruction>(users[at]))
      return instruction;
    else if (isa<ConstantExpr>(users[at]))
      users.insert(users[at]->user_begin(), users[at]->user_end());
  return nullptr;
}

// Variables of the C library and of C++'s, which the device's code is linked with, and what the compiler makes.
bool isOfOthers(StringRef name) {
  static const char *const known[] = {"stdin", "stdout", "stderr", "environ", "optarg", "optind", "opterr", "optopt", "signgam"};
  return name.starts_with("__") || name.starts_with(".") || name.starts_with("_ZS") || name.starts_with("_ZNS") ||
         name.starts_with("_ZT") || name.starts_with("_ZGV") || name.starts_with("omp") || is_contained(known, name);
}

} // namespace

void refuseVariables(Module &module) {
  if (none_of(module, [](const Function &function) { return function.getName().contains("14offload_stdpar"); }))
    return;
  for (GlobalVariable &variable : module.globals()) {
    bool isLocal = variable.getName().starts_with("_ZZ") && !variable.isConstant() && variable.hasLocalLinkage(); // of a function
    const Instruction *use = isOfOthers(variable.getName()) || !(isLocal || variable.isDeclaration()) ? nullptr : userOf(variable);
    if (!use)
      continue;
    std::string why = "a parallel algorithm uses the variable " + demangle(variable.getName().str()) +
                      " by its name, which is not recorded: make it constexpr, or hand it over as a value or by a pointer";
    module.getContext().diagnose(DiagnosticInfoUnsupported(*use->getFunction(), why, use->getDebugLoc()));
  }
}

} // namespace offload
