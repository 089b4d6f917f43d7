// Host code that tells which pages it touches, when the recorder asks for it.
//
// Each module keeps the address of the recorder's table (recorder/touches.c); it is null without a recorder, and then the plain
// version of each function runs. The recorder is found with dlsym, so that the program runs without it as well.
#include "plugin.h"
#include "../slots.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace llvm;

namespace offload {
namespace {

constexpr const char *Table = "__offload_touch_table", *Touch = "__offload_touch", *Range = "__offload_range";
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

void reportTouch(const Access &access) {
  IRBuilder<> builder(access.instruction);
  Module &module = *access.instruction->getModule();
  Value *address = builder.CreatePtrToInt(access.pointer, builder.getInt64Ty());
  Value *page = builder.CreateAnd(builder.CreateLShr(address, PageShift), PageMask);
  Value *table = builder.CreateLoad(builder.getPtrTy(), module.getNamedGlobal(Table));
  Value *wanted = builder.CreateLoad(builder.getInt8Ty(), builder.CreateGEP(builder.getInt8Ty(), table, page));
  unsigned way = access.way & (LOADS | STORES);
  for (unsigned each : {unsigned(LOADS), unsigned(STORES)}) {
    if (!(way & each))
      continue;
    IRBuilder<> here(access.instruction);
    Value *report = here.CreateICmpNE(here.CreateAnd(wanted, each), here.getInt8(0));
    here.SetInsertPoint(SplitBlockAndInsertIfThen(report, access.instruction->getIterator(), false));
    auto *type = FunctionType::get(here.getVoidTy(), {here.getInt64Ty(), here.getInt32Ty()}, false);
    here.CreateCall(type, here.CreateLoad(here.getPtrTy(), module.getNamedGlobal(Touch)), {address, here.getInt32(each)});
  }
}

void reportRange(MemIntrinsic &range) {
  IRBuilder<> builder(&range);
  Module &module = *range.getModule();
  auto *type = FunctionType::get(builder.getVoidTy(), {builder.getInt64Ty(), builder.getInt64Ty(), builder.getInt32Ty()}, false);
  auto report = [&](Value *pointer, unsigned way) {
    if (isStack(pointer))
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
  builder.CreateCall(FunctionType::get(builder.getVoidTy(), {pointer}, false), recorder, {module.getNamedGlobal(Table)});
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
  std::vector<Function *> functions;
  for (Function &function : module) // the host's version of a kernel runs only where the device is missing
    if (mayClone(function) && !function.getName().starts_with("__omp_offloading"))
      functions.push_back(&function);
  for (Function *function : functions) {
    std::vector<Instruction *> reported;
    for (BasicBlock &block : *function)
      for (Instruction &instruction : block) {
        Access access;
        auto *range = dyn_cast<MemIntrinsic>(&instruction);
        if (range || (accessOf(instruction, layout, access) && !isStack(access.pointer)))
          reported.push_back(&instruction);
      }
    if (reported.empty())
      continue;
    ValueToValueMapTy map;
    versions.push_back({function, cloneFor(*function, map, ".touching")});
    for (Instruction *instruction : reported) {
      auto *twin = cast<Instruction>(map[instruction]);
      Access access;
      if (auto *range = dyn_cast<MemIntrinsic>(twin))
        ranges.push_back(range);
      else if (accessOf(*twin, layout, access))
        accesses.push_back(access);
    }
  }
  if (versions.empty())
    return false;
  for (const char *name : {Table, Touch, Range})
    slot(module, name);
  for (const Access &access : accesses)
    reportTouch(access);
  for (MemIntrinsic *range : ranges)
    reportRange(*range);
  for (auto &[plain, touching] : versions)
    dispatch(*plain, *touching, isRecorded);
  addConstructor(module);
  return true;
}

} // namespace offload
