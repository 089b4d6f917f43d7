// Device code that counts: a counter for each basic block, and in the traced version of each function a report of each access.
//
// The totals are exact: counter of a block times the block's row. A fixed table holds the rows; the device runtime multiplies.
#include "plugin.h"
#include "../slots.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace llvm;

namespace offload {
namespace {

constexpr const char *Traced = "__offload_traced", *Entered = "__offload_entered";

class Device {
public:
  explicit Device(Module &module)
      : module(module), context(module.getContext()), layout(module.getDataLayout()), none(Type::getVoidTy(context)),
        i32(Type::getInt32Ty(context)), i64(Type::getInt64Ty(context)), pointer(PointerType::get(context, 0)) {}

  bool run();

private:
  void prepare(Function &);
  void makeTables();
  void tellEntry(Function &kernel);
  void addCounter(BasicBlock &, size_t row);
  void separateCounters(Function &);
  void report(const Access &, size_t site);
  void countRange(MemIntrinsic &);
  void reportRange(MemIntrinsic &, size_t site);
  void reportDescribed(CallBase &, Value *site);
  Value *siteNumber(IRBuilder<> &, size_t site);
  Constant *places();
  std::pair<Constant *, uint64_t> variables();
  void mayYield(Instruction &);
  void addConstructor();
  GlobalVariable *hidden(Type *, const char *name);

  struct Version { // of a block: in the plain function and in the traced one
    BasicBlock *plain, *traced;
    size_t row;
  };

  Module &module;
  LLVMContext &context;
  const DataLayout &layout;
  Type *none;
  IntegerType *i32, *i64;
  PointerType *pointer;
  std::vector<Row> rows;
  std::vector<Version> blocks;
  std::vector<Access> accesses; // of traced versions
  std::vector<MemIntrinsic *> ranges, tracedRanges;
  std::vector<CallBase *> described, tracedDescribed;
  std::vector<Instruction *> spins;
  std::vector<std::pair<Function *, Function *>> versions;
  GlobalVariable *counters = nullptr, *table = nullptr, *firstSite = nullptr;
  MDNode *countersScope = nullptr;
};

GlobalVariable *Device::hidden(Type *type, const char *name) {
  auto *variable = cast<GlobalVariable>(module.getOrInsertGlobal(name, type));
  variable->setVisibility(GlobalValue::HiddenVisibility);
  return variable;
}

// Whether code that runs this again and again may be waiting for another thread of the grid.
bool maySpin(const Instruction &instruction) {
  if (auto *load = dyn_cast<LoadInst>(&instruction))
    return load->isVolatile() || load->isAtomic();
  return isa<AtomicRMWInst>(instruction) || isa<AtomicCmpXchgInst>(instruction) || isa<FenceInst>(instruction);
}

void Device::prepare(Function &function) {
  ValueToValueMapTy map;
  Function *traced = mayClone(function) ? cloneFor(function, map, ".traced") : nullptr;
  if (traced)
    versions.push_back({&function, traced});
  for (BasicBlock &block : function) {
    Row row = countBlock(block, layout);
    BasicBlock *twin = traced ? cast<BasicBlock>(map[&block]) : nullptr;
    if (row != Row{}) {
      blocks.push_back({&block, twin, rows.size()});
      rows.push_back(row);
    }
    for (Instruction &instruction : block) {
      Access access;
      if (traced && accessOf(instruction, layout, access) && !isStack(access.pointer)) {
        access.instruction = cast<Instruction>(map[&instruction]);
        accessOf(*access.instruction, layout, access);
        accesses.push_back(access);
      }
      if (auto *range = dyn_cast<MemIntrinsic>(&instruction)) {
        ranges.push_back(range);
        if (traced)
          tracedRanges.push_back(cast<MemIntrinsic>(map[range]));
      }
      if (auto *call = dyn_cast<CallBase>(&instruction); call && readsOrWritesDescribed(*call)) {
        described.push_back(call);
        if (traced)
          tracedDescribed.push_back(cast<CallBase>(map[call]));
      }
      if (maySpin(instruction)) {
        spins.push_back(&instruction);
        if (traced)
          spins.push_back(cast<Instruction>(map[&instruction]));
      }
    }
  }
}

void Device::makeTables() {
  auto *countersType = ArrayType::get(i64, rows.size());
  counters = new GlobalVariable(module, countersType, false, GlobalValue::InternalLinkage,
                                ConstantAggregateZero::get(countersType), "__offload_counters");
  std::vector<Constant *> cells;
  for (const Row &row : rows)
    for (int64_t cell : row)
      cells.push_back(ConstantInt::get(i64, cell));
  auto *tableType = ArrayType::get(i64, cells.size());
  table = new GlobalVariable(module, tableType, true, GlobalValue::InternalLinkage, ConstantArray::get(tableType, cells),
                             "__offload_rows");
  firstSite = new GlobalVariable(module, i32, false, GlobalValue::InternalLinkage, ConstantInt::get(i32, 0),
                                 "__offload_first_site");
  MDBuilder metadata(context);
  countersScope = MDNode::get(context, metadata.createAnonymousAliasScope(metadata.createAnonymousAliasScopeDomain("offload"),
                                                                          "counters"));
}

// An empty kernel counts nothing. That it ran says that nothing is what it costs.
void Device::tellEntry(Function &kernel) {
  IRBuilder<> builder(&*kernel.getEntryBlock().getFirstNonPHIOrDbgOrAlloca());
  builder.CreateStore(ConstantInt::get(i32, 1), hidden(i32, Entered));
}

void Device::addCounter(BasicBlock &block, size_t row) {
  IRBuilder<> builder(&block, block.getFirstNonPHIOrDbgOrAlloca());
  if (builder.GetInsertPoint() != block.end() && builder.GetInsertPoint()->isEHPad())
    builder.SetInsertPoint(&block, std::next(builder.GetInsertPoint()));
  Value *counter = builder.CreateConstInBoundsGEP2_64(counters->getValueType(), counters, 0, row);
  LoadInst *old = builder.CreateLoad(i64, counter);
  StoreInst *store = builder.CreateStore(builder.CreateAdd(old, ConstantInt::get(i64, 1)), counter);
  old->setMetadata(LLVMContext::MD_alias_scope, countersScope);
  store->setMetadata(LLVMContext::MD_alias_scope, countersScope);
}

// Whether other threads of the grid can run, and count, before this instruction is done.
bool mayWait(const Instruction &instruction) {
  auto *call = dyn_cast<CallBase>(&instruction);
  if (!call || isa<IntrinsicInst>(call))
    return false;
  const Function *callee = call->getCalledFunction();
  return !callee || !callee->isDeclaration() || !callee->getReturnType()->isFloatingPointTy();
}

// Says of the program's own accesses that they do not meet the counters. A call that may wait is not told so: a counter
// must be in memory while others run.
void Device::separateCounters(Function &function) {
  for (BasicBlock &block : function)
    for (Instruction &instruction : block)
      if (instruction.mayReadOrWriteMemory() && !mayWait(instruction) && instruction.getMetadata(LLVMContext::MD_alias_scope) != countersScope)
        instruction.setMetadata(LLVMContext::MD_noalias,
                                MDNode::concatenate(instruction.getMetadata(LLVMContext::MD_noalias), countersScope));
}

void Device::report(const Access &access, size_t site) {
  IRBuilder<> builder(access.instruction);
  builder.CreateCall(module.getOrInsertFunction("__offload_access", none, pointer, i32, i32),
                     {access.pointer, ConstantInt::get(i32, access.bytes | access.way << 16), siteNumber(builder, site)});
}

Value *Device::siteNumber(IRBuilder<> &builder, size_t site) {
  return builder.CreateAdd(builder.CreateLoad(i32, firstSite), ConstantInt::get(i32, site));
}

// The pointers of a copy or a fill that are not the thread's own, with what is done there: loads come first.
SmallVector<std::pair<Value *, unsigned>, 2> sidesOf(MemIntrinsic &range) {
  SmallVector<std::pair<Value *, unsigned>, 2> sides;
  if (auto *copy = dyn_cast<MemTransferInst>(&range); copy && !isStack(copy->getSource()))
    sides.push_back({copy->getSource(), LOADS | COPIES});
  if (!isStack(range.getDest()))
    sides.push_back({range.getDest(), STORES});
  return sides;
}

// A copy or fill whose length is known at run time only is counted by the device runtime.
void Device::countRange(MemIntrinsic &range) {
  IRBuilder<> builder(&range);
  FunctionCallee callee = module.getOrInsertFunction("__offload_count_range", none, pointer, i64, i32);
  for (auto [side, way] : sidesOf(range))
    builder.CreateCall(callee, {side, builder.CreateZExtOrTrunc(range.getLength(), i64), ConstantInt::get(i32, way)});
}

void Device::reportRange(MemIntrinsic &range, size_t site) {
  IRBuilder<> builder(&range);
  FunctionCallee callee = module.getOrInsertFunction("__offload_access_range", none, pointer, i64, i32, i32);
  for (auto [side, way] : sidesOf(range))
    builder.CreateCall(callee, {side, builder.CreateZExtOrTrunc(range.getLength(), i64), ConstantInt::get(i32, way),
                                siteNumber(builder, site)});
}

// What a routine of flang's runtime reads and writes, by descriptors; it is counted, and where it has a site, told.
void Device::reportDescribed(CallBase &call, Value *site) {
  FunctionCallee callee = module.getOrInsertFunction("__offload_described", none, pointer, i32, i32);
  eachDescribed(call, [&](Instruction *before, Value *descriptor, unsigned way) {
    IRBuilder<>(before).CreateCall(callee, {descriptor, ConstantInt::get(i32, way & (LOADS | STORES)), site});
  });
}

// The place of an access. Optimization leaves some without a line, as those that it has joined: then the nearest one in their block.
const DILocation *nearestLine(const Instruction &access) {
  auto lineAt = [](const Instruction &instruction) -> const DILocation * {
    const DILocation *location = instruction.getDebugLoc();
    while (location && !location->getLine())
      location = location->getInlinedAt();
    return location;
  };
  for (const Instruction *at = &access; at; at = at->getPrevNode())
    if (const DILocation *location = lineAt(*at))
      return location;
  for (const Instruction *at = &access; at; at = at->getNextNode())
    if (const DILocation *location = lineAt(*at))
      return location;
  return access.getDebugLoc();
}

// What the source calls the variable that an access is to by an address which the function was given: one that the threads of a team share.
std::string sharedName(const Instruction &instruction) {
  const Value *pointer = getLoadStorePointerOperand(&instruction);
  if (auto *range = dyn_cast<MemIntrinsic>(&instruction))
    pointer = range->getRawDest();
  if (auto *update = dyn_cast<AtomicRMWInst>(&instruction))
    pointer = update->getPointerOperand();
  auto *given = pointer ? const_cast<Value *>(getUnderlyingObject(pointer)) : nullptr;
  if (!given)
    return "";
  SmallVector<DbgVariableRecord *, 4> records;
  if (auto *load = dyn_cast<LoadInst>(given)) // without optimization the address is kept on the stack
    for (DbgVariableRecord *record : findDVRDeclares(load->getPointerOperand()))
      records.push_back(record);
  else if (isa<Argument>(given))
    findDbgValues(given, records);
  auto distance = [](const DbgVariableRecord *record) { // functions that were inlined may have pointers to the variable, as the region itself
    unsigned inlined = 0;
    for (const DILocation *at = record->getDebugLoc()->getInlinedAt(); at; at = at->getInlinedAt())
      inlined++;
    return std::pair(inlined, !record->getVariable()->isParameter());
  };
  auto nearest = min_element(records, [&](auto *one, auto *other) { return distance(one) < distance(other); });
  return nearest == records.end() ? "" : (*nearest)->getVariable()->getName().str();
}

// The line of each site: that of the access, then those of copies and fills, then those of calls of flang's runtime.
Constant *Device::places() {
  StructType *type = StructType::get(pointer, i32, pointer);
  StringMap<Constant *> texts;
  std::vector<Constant *> all;
  auto text = [&](StringRef letters) {
    Constant *&data = texts[letters];
    if (!data) {
      Constant *string = ConstantDataArray::getString(context, letters);
      data = new GlobalVariable(module, string->getType(), true, GlobalValue::PrivateLinkage, string, "__offload_file");
    }
    return data;
  };
  auto add = [&](const Instruction &instruction) {
    const DILocation *location = nearestLine(instruction);
    std::string name = sharedName(instruction);
    all.push_back(ConstantStruct::get(type, {text(location ? location->getFilename() : ""), ConstantInt::get(i32, location ? location->getLine() : 0),
                                             name.empty() ? ConstantPointerNull::get(pointer) : text(name)}));
  };
  for (const Access &access : accesses)
    add(*access.instruction);
  for (const MemIntrinsic *range : tracedRanges)
    add(*range);
  for (const CallBase *call : tracedDescribed)
    add(*call);
  auto *array = ArrayType::get(type, all.size());
  return new GlobalVariable(module, array, true, GlobalValue::InternalLinkage, ConstantArray::get(array, all),
                            "__offload_places");
}

// The variables of the image that the program may know by `declare target`: address, bytes, name.
std::pair<Constant *, uint64_t> Device::variables() {
  StructType *type = StructType::get(pointer, i64, pointer);
  std::vector<Constant *> all;
  for (GlobalVariable &variable : module.globals()) {
    if (variable.isDeclaration() || variable.isConstant() || variable.isThreadLocal() || variable.hasSection() || !variable.hasName() ||
        variable.getName().starts_with("__offload_") || variable.getName().starts_with("llvm.") || variable.getName().starts_with("."))
      continue;
    Constant *text = ConstantDataArray::getString(context, variable.getName());
    auto *name = new GlobalVariable(module, text->getType(), true, GlobalValue::PrivateLinkage, text, "__offload_variable");
    all.push_back(ConstantStruct::get(type, {&variable, ConstantInt::get(i64, layout.getTypeAllocSize(variable.getValueType())), name}));
  }
  auto *array = ArrayType::get(type, all.size());
  return {new GlobalVariable(module, array, true, GlobalValue::InternalLinkage, ConstantArray::get(array, all), "__offload_variables"), all.size()};
}

// The threads of the grid are played one after the other. One that polls must give the others a turn now and then.
void Device::mayYield(Instruction &instruction) {
  IRBuilder<> builder(&instruction);
  GlobalVariable *left = hidden(i32, "__offload_polls_left");
  Value *fewer = builder.CreateSub(builder.CreateLoad(i32, left), ConstantInt::get(i32, 1));
  builder.CreateStore(fewer, left);
  Value *none_left = builder.CreateICmpEQ(fewer, ConstantInt::get(i32, 0));
  builder.SetInsertPoint(SplitBlockAndInsertIfThen(none_left, instruction.getIterator(), false));
  builder.CreateCall(module.getOrInsertFunction("__offload_yield", none));
}

void Device::addConstructor() {
  FunctionCallee callee =
      module.getOrInsertFunction("__offload_register", none, pointer, pointer, i64, pointer, i64, pointer, pointer, i64);
  auto [list, count] = variables();
  auto *constructor = Function::Create(FunctionType::get(none, false), GlobalValue::InternalLinkage,
                                       "__offload_constructor", module);
  IRBuilder<> builder(BasicBlock::Create(context, "entry", constructor));
  builder.CreateCall(callee, {counters, table, ConstantInt::get(i64, rows.size()), firstSite,
                              ConstantInt::get(i64, accesses.size() + tracedRanges.size() + tracedDescribed.size()), places(), list, ConstantInt::get(i64, count)});
  builder.CreateRetVoid();
  appendToGlobalCtors(module, constructor, 0);
}

Value *isTraced(Instruction *before) {
  IRBuilder<> builder(before);
  auto *flag = before->getModule()->getNamedGlobal(Traced);
  return builder.CreateICmpNE(builder.CreateLoad(builder.getInt32Ty(), flag), builder.getInt32(0));
}

bool Device::run() {
  std::vector<Function *> functions;
  for (Function &function : module)
    if (!function.isDeclaration() && !function.getName().starts_with("__offload_"))
      functions.push_back(&function);
  for (Function *function : functions)
    prepare(*function);
  std::vector<Function *> kernels;
  copy_if(functions, std::back_inserter(kernels), isKernel);
  if (rows.empty() && kernels.empty())
    return false;
  hidden(i32, Traced);
  makeTables();
  for (Version &block : blocks) {
    addCounter(*block.plain, block.row);
    if (block.traced)
      addCounter(*block.traced, block.row);
  }
  for (Function *function : functions)
    separateCounters(*function);
  for (size_t site = 0; site < accesses.size(); site++)
    report(accesses[site], site);
  for (MemIntrinsic *range : ranges)
    countRange(*range);
  for (size_t place = 0; place < tracedRanges.size(); place++)
    reportRange(*tracedRanges[place], accesses.size() + place);
  for (CallBase *call : described)
    reportDescribed(*call, ConstantInt::get(i32, 0));
  for (size_t place = 0; place < tracedDescribed.size(); place++) {
    IRBuilder<> builder(tracedDescribed[place]);
    reportDescribed(*tracedDescribed[place], siteNumber(builder, accesses.size() + tracedRanges.size() + place));
  }
  for (Instruction *instruction : spins)
    mayYield(*instruction);
  for (auto &[plain, traced] : versions)
    dispatch(*plain, *traced, isTraced);
  markLeagues(module);
  for (Function *kernel : kernels)
    tellEntry(*kernel);
  addConstructor();
  return true;
}

} // namespace

bool isKernel(const Function *function) {
  return function->getName().starts_with("__omp_offloading_") && !function->hasLocalLinkage();
}

bool instrumentDevice(Module &module) { return Device(module).run(); }

} // namespace offload
