# make sight      the complete program for this machine
# make arm        build/arm/sight.elf for a Cortex-M4F, with its map file, and the sizes of its parts
# make run-arm    runs it in an emulator: make run-arm < recording.csv
ARM = arm-none-eabi-
ARM_FLAGS = -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 -ffp-contract=fast -O2 \
	-ffunction-sections -fdata-sections
ARM_LINK = -T board_mps2_an386.ld -nostartfiles --specs=rdimon.specs -Wl,--gc-sections -lm
QEMU = qemu-system-arm -M mps2-an386 -display none -semihosting-config enable=on,target=native

sight: main.c $(SOURCES) $(HEADERS)
	$(CC) $(WARNINGS) $(CFLAGS) -o $@ main.c $(SOURCES) -lm

arm: build/arm/sight.elf
	$(ARM)size $<

build/arm/%.o: %.c $(HEADERS)
	@mkdir -p build/arm
	$(ARM)gcc $(WARNINGS) $(ARM_FLAGS) -c $< -o $@

build/arm/sight.elf: $(patsubst %.c,build/arm/%.o,main.c board_startup.c $(SOURCES)) board_mps2_an386.ld
	$(ARM)gcc $(ARM_FLAGS) -o $@ $(filter %.o,$^) $(ARM_LINK) -Wl,-Map=build/arm/sight.map

run-arm: build/arm/sight.elf
	@$(QEMU) -kernel $<

.PHONY: arm run-arm
