// Host code that tells which pages it touches, when the recorder asks for it.
//
// Each module keeps the address of the recorder's table (recorder/touches.c); it is null without a recorder, and then the plain
// version of each function runs. The recorder is found with dlsym, so that the program runs without it as well.
#include "plugin.h"
#include "../slots.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"
#include <optional>

using namespace llvm;

namespace offload {
namespace {

constexpr const char *Table = "__offload_touch_table", *Touch = "__offload_touch", *Frees = "__offload_frees", *Calls = "__offload_calls",
                    *Leaves = "__offload_leaves", *Makes = "__offload_makes", *Stops = "__offload_stops";
constexpr unsigned PageShift = 16;
constexpr uint64_t PageMask = (1ull << (47 - PageShift)) - 1;

Value *isRecorded(Instruction *before) {
  IRBuilder<> builder(before);
  auto *table = before->getModule()->getNamedGlobal(Table);
  return builder.CreateIsNotNull(builder.CreateLoad(builder.getPtrTy(), table));
}

// Makes an internal variable that will hold the address of a function of the recorder.
GlobalVariable *slot(Module &module, const char *name) {
  auto *type = PointerType::get(module.getContext(), 0);
  return new GlobalVariable(module, type, false, GlobalValue::InternalLinkage, ConstantPointerNull::get(type), name);
}

// What is asked of the accesses to an address: the byte of its page in the recorder's table.
Value *wantedOf(IRBuilder<> &builder, Module &module, Value *address) {
  Value *page = builder.CreateAnd(builder.CreateLShr(address, PageShift), PageMask);
  Value *table = builder.CreateLoad(builder.getPtrTy(), module.getNamedGlobal(Table));
  return builder.CreateLoad(builder.getInt8Ty(), builder.CreateGEP(builder.getInt8Ty(), table, page));
}

Value *isWatched(Instruction *before, Value *address) {
  IRBuilder<> builder(before);
  Value *wanted = wantedOf(builder, *before->getModule(), builder.CreatePtrToInt(address, builder.getInt64Ty()));
  return builder.CreateICmpNE(builder.CreateAnd(wanted, EACH_BYTE), builder.getInt8(0));
}

void reportTouch(const Access &access) {
  IRBuilder<> builder(access.instruction);
  Module &module = *access.instruction->getModule();
  Value *address = builder.CreatePtrToInt(access.pointer, builder.getInt64Ty());
  Value *wanted = wantedOf(builder, module, address);
  unsigned way = access.way & (LOADS | STORES);
  for (unsigned each : {unsigned(LOADS), unsigned(STORES)}) {
    if (!(way & each))
      continue;
    IRBuilder<> here(access.instruction);
    Value *report = here.CreateICmpNE(here.CreateAnd(wanted, each), here.getInt8(0));
    here.SetInsertPoint(SplitBlockAndInsertIfThen(report, access.instruction->getIterator(), false));
    unsigned what = each | (access.way & SYNC ? ATOMICALLY : 0) | access.bytes << 8;
    auto *type = FunctionType::get(here.getVoidTy(), {here.getInt64Ty(), here.getInt32Ty()}, false);
    here.CreateCall(type, here.CreateLoad(here.getPtrTy(), module.getNamedGlobal(Touch)), {address, here.getInt32(what)});
  }
}

void reportRange(MemIntrinsic &range) {
  IRBuilder<> builder(&range);
  Module &module = *range.getModule();
  auto *type = FunctionType::get(builder.getVoidTy(), {builder.getInt64Ty(), builder.getInt64Ty(), builder.getInt32Ty()}, false);
  auto report = [&](Value *pointer, unsigned way) {
    if (isUnreachable(pointer))
      return;
    Value *function = builder.CreateLoad(builder.getPtrTy(), module.getNamedGlobal(Range));
    builder.CreateCall(type, function, {builder.CreatePtrToInt(pointer, builder.getInt64Ty()),
                                        builder.CreateZExtOrTrunc(range.getLength(), builder.getInt64Ty()),
                                        builder.getInt32(way)});
  };
  report(range.getDest(), STORES);
  if (auto *copy = dyn_cast<MemTransferInst>(&range))
    report(copy->getSource(), LOADS);
}

// Whether a call ends the block that is its first argument.
bool releases(const CallBase &call) {
  const Function *callee = call.getCalledFunction();
  return callee && call.arg_size() && call.getArgOperand(0)->getType()->isPointerTy() &&
         (frees(*callee) || callee->getName() == "realloc" || callee->getName() == "munmap");
}

void reportFrees(CallBase &call) {
  std::string where = lineOf(call);
  if (!releases(call) || where.empty())
    return;
  IRBuilder<> builder(&call);
  auto *type = FunctionType::get(builder.getVoidTy(), {builder.getInt64Ty(), builder.getPtrTy()}, false);
  builder.CreateCall(type, builder.CreateLoad(builder.getPtrTy(), call.getModule()->getNamedGlobal(Frees)),
                     {builder.CreatePtrToInt(call.getArgOperand(0), builder.getInt64Ty()),
                      builder.CreateGlobalString(where, "__offload_line")});
}

// The bytes of the block that a call allocates for the code that calls, which alone stores there (for calloc: of how many bytes the
// elements are); nullptr: it does not.
Value *madeBy(const CallBase &call) {
  static const StringMap<unsigned> sizes{{"malloc", 0}, {"calloc", 1}, {"realloc", 1}, {"aligned_alloc", 1}, {"memalign", 1}, {"posix_memalign", 2}, {"mmap", 1}, {"mmap64", 1}};
  const Function *callee = call.getCalledFunction();
  StringRef name = callee ? callee->getName() : "";
  auto size = sizes.find(name);
  unsigned place = size == sizes.end() ? 0 : size->second;
  bool allocates = size != sizes.end() || name.starts_with("_Znw") || name.starts_with("_Zna");
  return allocates && place < call.arg_size() && call.getArgOperand(place)->getType()->isIntegerTy(64) ? call.getArgOperand(place) : nullptr;
}

void reportMakes(CallBase &call) {
  Value *bytes = madeBy(call);
  if (!bytes)
    return;
  IRBuilder<> builder(&call);
  if (call.getCalledFunction()->getName() == "calloc")
    bytes = builder.CreateMul(call.getArgOperand(0), bytes);
  std::string where = lineOf(call);
  Value *place = where.empty() ? cast<Value>(ConstantPointerNull::get(builder.getPtrTy())) : builder.CreateGlobalString(where, "__offload_line");
  auto *type = FunctionType::get(builder.getVoidTy(), {builder.getInt64Ty(), builder.getPtrTy()}, false);
  builder.CreateCall(type, builder.CreateLoad(builder.getPtrTy(), call.getModule()->getNamedGlobal(Makes)), {bytes, place});
}

// A routine of OpenMP for device memory: unlike a directive, it is not told where it is called.
bool isRoutine(const CallBase &call) {
  const Function *callee = call.getCalledFunction();
  return callee && (callee->getName().starts_with("omp_target_") || callee->getName() == "omp_get_mapped_ptr");
}

void reportRoutine(CallBase &call) {
  std::string place = isRoutine(call) ? placeOf(call) : "";
  if (place.empty())
    return;
  IRBuilder<> builder(&call);
  auto *type = FunctionType::get(builder.getVoidTy(), {builder.getPtrTy()}, false);
  builder.CreateCall(type, builder.CreateLoad(builder.getPtrTy(), call.getModule()->getNamedGlobal(Calls)),
                     {builder.CreateGlobalString(place, "__offload_line")});
}

void reportStop(Instruction &before, unsigned why) {
  IRBuilder<> builder(&before);
  auto *type = FunctionType::get(builder.getVoidTy(), {builder.getPtrTy(), builder.getInt32Ty()}, false);
  builder.CreateCall(type, builder.CreateLoad(builder.getPtrTy(), before.getModule()->getNamedGlobal(Stops)),
                     {builder.CreateGlobalString(stopPlace(before), "__offload_line"), builder.getInt32(why)});
}

// A constant that the source names, and not a literal or a table of the compiler's.
bool isNamedConstant(const GlobalVariable &variable) {
  return variable.isConstant() && !variable.hasPrivateLinkage() && !variable.getName().starts_with("_ZT");
}

// Tells the recorder of the variables of a module: arrays that the program need not allocate.
void tellVariables(Module &module, IRBuilder<> &builder, Value *tell, Value *tellConstant) {
  PointerType *pointer = builder.getPtrTy();
  auto *type = FunctionType::get(builder.getVoidTy(), {pointer, builder.getInt64Ty(), pointer}, false);
  for (GlobalVariable &variable : module.globals())
    if (!variable.isDeclaration() && (!variable.isConstant() || isNamedConstant(variable)) && !variable.isThreadLocal() &&
        !variable.getName().starts_with("__offload_") && !variable.getName().starts_with("llvm.") &&
        !variable.getName().starts_with(".") && !variable.hasSection())
      builder.CreateCall(type, variable.isConstant() ? tellConstant : tell,
                         {&variable, builder.getInt64(module.getDataLayout().getTypeAllocSize(variable.getValueType())),
                          builder.CreateGlobalString(nameOf(variable), "__offload_variable")});
}

// At the start of the program: asks the recorder, if there is one, for its table and functions.
void addConstructor(Module &module) {
  LLVMContext &context = module.getContext();
  auto *constructor = Function::Create(FunctionType::get(Type::getVoidTy(context), false), GlobalValue::InternalLinkage,
                                       "__offload_constructor", module);
  auto *ask = BasicBlock::Create(context, "ask", constructor), *end = BasicBlock::Create(context, "end", constructor);
  IRBuilder<> builder(BasicBlock::Create(context, "entry", constructor, ask));
  PointerType *pointer = builder.getPtrTy();
  FunctionCallee find = module.getOrInsertFunction("dlsym", pointer, pointer, pointer);
  auto found = [&](const char *name) {
    return builder.CreateCall(find, {ConstantPointerNull::get(pointer), builder.CreateGlobalString(name)});
  };
  Value *recorder = found("offload_recorder_module");
  builder.CreateCondBr(builder.CreateIsNotNull(recorder), ask, end);
  builder.SetInsertPoint(ask);
  builder.CreateStore(found("offload_recorder_touch"), module.getNamedGlobal(Touch));
  builder.CreateStore(found("offload_recorder_range"), module.getNamedGlobal(Range));
  builder.CreateStore(found("offload_recorder_given"), module.getNamedGlobal(Given));
  builder.CreateStore(found("offload_recorder_shown"), module.getNamedGlobal(Shown));
  builder.CreateStore(found("offload_recorder_frees"), module.getNamedGlobal(Frees));
  builder.CreateStore(found("offload_recorder_calls"), module.getNamedGlobal(Calls));
  builder.CreateStore(found("offload_recorder_leaves"), module.getNamedGlobal(Leaves));
  builder.CreateStore(found("offload_recorder_makes"), module.getNamedGlobal(Makes));
  builder.CreateStore(found("offload_recorder_stops"), module.getNamedGlobal(Stops));
  builder.CreateStore(found("offload_recorder_flag"), module.getNamedGlobal(Flag));
  builder.CreateStore(found("offload_recorder_described"), module.getNamedGlobal(Described));
  builder.CreateStore(found("offload_recorder_watches"), module.getNamedGlobal(Watches));
  if (GlobalVariable *unset = module.getNamedGlobal("__offload_unset"))
    builder.CreateStore(found("offload_recorder_unset"), unset);
  if (GlobalVariable *mapped = module.getNamedGlobal("__offload_new"))
    builder.CreateStore(found("offload_recorder_new"), mapped);
  builder.CreateCall(FunctionType::get(builder.getVoidTy(), {pointer}, false), recorder, {module.getNamedGlobal(Table)});
  tellVariables(module, builder, found("offload_recorder_variable"), found("offload_recorder_constant"));
  auto [functions, count] = calledByAddress(module);
  builder.CreateCall(FunctionType::get(builder.getVoidTy(), {pointer, builder.getInt64Ty()}, false), found("offload_recorder_functions"),
                     {functions, builder.getInt64(count)});
  builder.CreateBr(end);
  builder.SetInsertPoint(end);
  builder.CreateRetVoid();
  appendToGlobalCtors(module, constructor, 0);
}

} // namespace

bool instrumentHost(Module &module) {
  const DataLayout &layout = module.getDataLayout();
  std::vector<std::pair<Function *, Function *>> versions;
  std::vector<Access> accesses;
  std::vector<MemIntrinsic *> ranges;
  std::vector<CallBase *> calls;
  std::vector<std::pair<Instruction *, unsigned>> stops;
  std::vector<Instruction *> flags;
  std::vector<Function *> functions;
  markFunctions(module);
  for (Function &function : module)
    if (mayClone(function))
      functions.push_back(&function);
  for (Function *function : functions) {
    std::vector<Instruction *> reported;
    for (BasicBlock &block : *function)
      for (Instruction &instruction : block) {
        Access access;
        auto *range = dyn_cast<MemIntrinsic>(&instruction);
        auto *call = dyn_cast<CallBase>(&instruction);
        if (range || isa<FenceInst>(instruction) ||
            (call && (releases(*call) || madeBy(*call) || isRoutine(*call) || givesAnything(*call) || ordersThreads(*call))) ||
            (accessOf(instruction, layout, access) && !isUnreachable(access.pointer)))
          reported.push_back(&instruction);
      }
    MapVector<Instruction *, unsigned> stopped = stopsOf(*function);
    if (reported.empty() && stopped.empty() && !hasScopes(*function))
      continue;
    ValueToValueMapTy map;
    versions.push_back({function, cloneFor(*function, map, ".touching")});
    for (auto [instruction, why] : stopped)
      stops.push_back({cast<Instruction>(map[instruction]), why});
    for (Instruction *instruction : reported) {
      auto *twin = cast<Instruction>(map[instruction]);
      Access access;
      if (auto *range = dyn_cast<MemIntrinsic>(twin))
        ranges.push_back(range);
      else if (auto *call = dyn_cast<CallBase>(twin))
        calls.push_back(call);
      else if (accessOf(*twin, layout, access))
        accesses.push_back(access);
      if (ordersThreads(*twin))
        flags.push_back(twin);
    }
  }
  if (versions.empty())
    return true;
  for (const char *name : {Table, Touch, Range, Given, Shown, Frees, Calls, Leaves, Makes, Stops, Flag, Described, Watches})
    slot(module, name);
  for (auto [instruction, why] : stops)
    reportStop(*instruction, why);
  for (const Access &access : accesses)
    reportTouch(access);
  for (Instruction *flag : flags) // behind the touch: what an atomic access lets others know has the access itself
    reportFlag(*flag);
  for (MemIntrinsic *range : ranges)
    reportRange(*range);
  for (CallBase *call : calls) {
    reportGiven(*call);
    reportFrees(*call);
    reportMakes(*call);
    reportRoutine(*call);
  }
  for (auto &[plain, touching] : versions) {
    reportScopes(*touching, *module.getNamedGlobal(Leaves), isWatched);
    dispatch(*plain, *touching, isRecorded);
  }
  addConstructor(module);
  return true;
}

} // namespace offload
