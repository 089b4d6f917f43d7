// The compiler plugin of offloadrt's recorder (LLVM 22 and later).
//
// Device code is made to count what it does (device.cpp, counting.cpp), host code to tell which pages it touches (host.cpp).
// What the runtime is told of places and names is completed (places.cpp), kernels say what they compute for nobody (lost.cpp), and
// threads where they read a variable of their own that nobody has written (unset.cpp).
// Both run when the program is simplified and inlined but not yet vectorized: later, the vectorizer and the target's code generator would
// count for the CPU what a GPU does otherwise.
#include "plugin.h"
#include "llvm/Passes/PassBuilder.h"
#if __has_include("llvm/Plugins/PassPlugin.h")
#include "llvm/Plugins/PassPlugin.h"
#else
#include "llvm/Passes/PassPlugin.h"
#endif
#include <cstdlib>

using namespace llvm;

namespace {

struct Instrument : PassInfoMixin<Instrument> {
  PreservedAnalyses run(Module &module, ModuleAnalysisManager &) {
    bool changed;
    if (module.getModuleFlag("openmp-device"))
      changed = offload::instrumentDevice(module);
    else
      changed = getenv("OFFLOADRT_NO_HOST_TOUCHES") ? false : offload::instrumentHost(module);
    return changed ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }
  static bool isRequired() { return true; }
};

// Before anything is optimized.
struct Look : PassInfoMixin<Look> {
  PreservedAnalyses run(Module &module, ModuleAnalysisManager &) {
    bool isDevice = module.getModuleFlag("openmp-device");
    if (isDevice)
      offload::tellLost(module), offload::refuseVariables(module);
    else
      offload::completePlaces(module), offload::inlineCallers(module);
    offload::tellUnset(module, isDevice);
    return PreservedAnalyses::none();
  }
  static bool isRequired() { return true; }
};

void addPasses(PassBuilder &builder) {
  builder.registerPipelineStartEPCallback([](ModulePassManager &manager, OptimizationLevel) { manager.addPass(Look()); });
  builder.registerOptimizerEarlyEPCallback(
      [&builder](ModulePassManager &manager, OptimizationLevel level, ThinOrFullLTOPhase) {
        manager.addPass(Instrument());
        // Counters of inner loops become registers, so that these loops can still be vectorized.
        if (level != OptimizationLevel::O0)
          cantFail(builder.parsePassPipeline(manager, "function(loop-mssa(licm))"));
      });
}

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "offloadrt-recorder", "1", addPasses};
}
