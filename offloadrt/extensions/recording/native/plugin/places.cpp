// Names and places that the compiler leaves out of what the runtime is told, and those of the program's variables.
//
// flang calls every file FIRModule, gives a target region no place, and a variable that no clause names no name. Both are in the debug
// information: of the call, and of the host's version of the region. It runs before that is inlined.
#include "plugin.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/DebugProgramInstruction.h"

using namespace llvm;

namespace offload {
namespace {

constexpr const char *NoFile = "FIRModule", *Unknown = "unknown";
constexpr uint64_t TARGET_PARAM = 0x20; // of map types

StringRef textOf(const GlobalVariable *variable) {
  auto *data = variable && variable->hasInitializer() ? dyn_cast<ConstantDataArray>(variable->getInitializer()) : nullptr;
  return data && data->isCString() ? data->getAsCString() : "";
}

GlobalVariable *newText(Module &module, const Twine &text) {
  Constant *data = ConstantDataArray::getString(module.getContext(), text.str());
  auto *made = new GlobalVariable(module, data->getType(), true, GlobalValue::PrivateLinkage, data, "__offload_place");
  made->setUnnamedAddr(GlobalValue::UnnamedAddr::Global);
  return made;
}

} // namespace

std::string placeOf(const CallBase &call, StringRef said) {
  SmallVector<StringRef, 8> parts;
  said.split(parts, ';');
  const DILocation *location = call.getDebugLoc();
  if (parts.size() < 5 || !location || !location->getLine() || (parts[1] != NoFile && parts[1] != Unknown))
    return "";
  const DISubprogram *function = location->getScope()->getSubprogram();
  bool hasLine = parts[3] != "0";
  std::string name = parts[2] == Unknown ? (function ? function->getName().str() : "") : parts[2].str();
  std::string line = hasLine ? parts[3].str() : std::to_string(location->getLine());
  std::string column = hasLine ? parts[4].str() : std::to_string(location->getColumn());
  return (";" + location->getFilename() + ";" + name + ";" + line + ";" + column + ";;").str();
}

namespace {

// The runtime's description of a place has the text as its last member.
void completePlace(CallBase &call) {
  auto *ident = dyn_cast<GlobalVariable>(call.getArgOperand(0)->stripPointerCasts());
  auto *described = ident && ident->hasInitializer() ? dyn_cast<ConstantStruct>(ident->getInitializer()) : nullptr;
  if (!described || !described->getNumOperands())
    return;
  unsigned last = described->getNumOperands() - 1;
  auto *text = dyn_cast<GlobalVariable>(described->getOperand(last)->stripPointerCasts());
  std::string place = placeOf(call, textOf(text));
  if (place.empty())
    return;
  Module &module = *call.getModule();
  SmallVector<Constant *, 8> members;
  for (Use &member : described->operands())
    members.push_back(cast<Constant>(member));
  members[last] = newText(module, place);
  auto *made = new GlobalVariable(module, described->getType(), true, GlobalValue::PrivateLinkage,
                                  ConstantStruct::get(described->getType(), members), "__offload_ident");
  call.setArgOperand(0, made);
}

// The names of a region's parameters, by their places: those of the host's version of it, which flang describes.
SmallVector<StringRef, 16> parametersOf(Function &region) {
  SmallVector<StringRef, 16> names(region.arg_size());
  for (BasicBlock &block : region)
    for (Instruction &instruction : block)
      for (DbgVariableRecord &record : filterDbgVars(instruction.getDbgRecordRange()))
        if (auto *parameter = dyn_cast_or_null<Argument>(record.getVariableLocationOp(0)))
          names[parameter->getArgNo()] = record.getVariable()->getName();
  return names;
}

// The table of that name that a function stores into the description of a launch.
GlobalVariable *tableOf(Value &description, StringRef name) {
  for (User *field : description.users())
    for (User *user : field->users())
      if (auto *store = dyn_cast<StoreInst>(user))
        if (auto *table = dyn_cast<GlobalVariable>(store->getValueOperand()->stripPointerCasts()))
          if (table->getName().starts_with(name) && table->hasInitializer())
            return table;
  return nullptr;
}

// Names the variables of a region that no clause names: each parameter of the region has an item, in the same order.
void nameItems(CallBase &launch) {
  Module &module = *launch.getModule();
  StringRef id = launch.getArgOperand(4)->stripPointerCasts()->getName();
  Function *region = id.consume_front(".") && id.consume_back(".region_id") ? module.getFunction(id) : nullptr;
  GlobalVariable *texts = tableOf(*launch.getArgOperand(5), ".offload_mapnames");
  GlobalVariable *types = tableOf(*launch.getArgOperand(5), ".offload_maptypes");
  auto *typed = types ? dyn_cast<ConstantDataArray>(types->getInitializer()) : nullptr;
  auto *named = texts ? dyn_cast<ConstantArray>(texts->getInitializer()) : nullptr;
  if (!region || region->isDeclaration() || !typed || !named || typed->getNumElements() != named->getNumOperands())
    return;
  SmallVector<StringRef, 16> parameters = parametersOf(*region);
  SmallVector<Constant *, 16> completed;
  unsigned parameter = 1; // behind the first, which is the runtime's
  for (unsigned item = 0; item < named->getNumOperands(); item++) {
    completed.push_back(named->getOperand(item));
    if (!(typed->getElementAsInteger(item) & TARGET_PARAM) || parameter >= parameters.size())
      continue;
    StringRef name = parameters[parameter++];
    SmallVector<StringRef, 8> parts;
    textOf(dyn_cast<GlobalVariable>(completed.back()->stripPointerCasts())).split(parts, ';');
    if (parts.size() > 5 && parts[2] == Unknown && !name.empty() && !name.starts_with("."))
      completed.back() = newText(module, ";" + parts[1] + ";" + name + ";" + parts[3] + ";" + parts[4] + ";;");
  }
  texts->setInitializer(ConstantArray::get(named->getType(), completed));
}

} // namespace

void completePlaces(Module &module) {
  for (Function &function : module)
    for (BasicBlock &block : function)
      for (Instruction &instruction : block) {
        auto *call = dyn_cast<CallBase>(&instruction);
        StringRef name = call && call->getCalledFunction() ? call->getCalledFunction()->getName() : "";
        if (!name.starts_with("__tgt_target_"))
          continue;
        completePlace(*call);
        if (name.starts_with("__tgt_target_kernel") && module.getSourceFileName() == NoFile)
          nameItems(*call);
      }
}

std::string nameOf(const GlobalVariable &variable) {
  SmallVector<DIGlobalVariableExpression *, 4> described;
  variable.getDebugInfo(described);
  if (variable.hasCommonLinkage() && !described.empty() && described[0]->getVariable()->getLinkageName() != variable.getName())
    return ("/" + variable.getName().rtrim('_') + "/").str();
  std::string own = described.size() == 1 ? described[0]->getVariable()->getName().str() : "";
  bool saysFunction = variable.getName().contains("." + own); // as clang calls a variable of a function in C
  return own.empty() || saysFunction ? variable.getName().str() : own;
}

} // namespace offload
